/** The scenarios of the suite that apply to each target. */

import type { SpecVersion } from './run.js';

/** The number of checks that a server with all features passes. A gateway that changes nothing must pass as many. */
export const CHECKS: Record<SpecVersion, number> = {
  '2025-03-26': 3,
  '2025-06-18': 56,
  '2025-11-25': 84,
  '2026-07-28': 152,
};

/** The number of server scenarios in the suite at each revision. */
export const SCENARIOS: Record<SpecVersion, number> = {
  '2025-03-26': 1,
  '2025-06-18': 27,
  '2025-11-25': 33,
  '2026-07-28': 40,
};

/** The tasks extension: ten scenarios. The suite itself skips `tasks-status-notifications`. */
export const isTasksScenario = (name: string): boolean => name.startsWith('tasks-');
export const TASKS_SCENARIOS = 10;
export const TASKS_CHECKS = 44;

/**
 * The suite addresses its tools and prompts by name, so with prefixed names only these scenarios are meaningful. Some
 * others pass as well, but only because the gateway correctly refuses their call.
 */
const MEANINGFUL_WITH_PREFIX = new Set([
  'server-initialize',
  'server-session-lifecycle',
  'logging-set-level',
  'ping',
  'completion-complete',
  'tools-list',
  'server-sse-multiple-streams',
  'resources-list',
  'resources-read-text',
  'resources-read-binary',
  'resources-templates-read',
  'resources-subscribe',
  'resources-unsubscribe',
  'sep-2164-resource-not-found',
  'prompts-list',
  'dns-rebinding-protection',
  'caching',
  'http-header-validation',
  'http-custom-header-server-validation',
  'input-required-result-unsupported-methods',
]);

export const isMeaningfulWithPrefix = (name: string): boolean => MEANINGFUL_WITH_PREFIX.has(name);

/** The number of those that apply at each revision. */
export const PREFIXED_SCENARIOS: Record<SpecVersion, number> = {
  '2025-03-26': 1,
  '2025-06-18': 13,
  '2025-11-25': 15,
  '2026-07-28': 14,
};

/**
 * The client scenarios that apply to the gateway's upstream side, with the minimum number of successful checks: some
 * scenarios count one check for every method they see, or for every declared capability. `auth/*` is in `auth.test.ts`.
 * Excluded: `sep-2640-*`, which test how a host uses the skills it has loaded, not a gateway.
 */
export const CLIENT_SCENARIOS: readonly { scenario: string; specVersion: SpecVersion; checks: number }[] = [
  { scenario: 'initialize', specVersion: '2025-06-18', checks: 1 },
  { scenario: 'initialize', specVersion: '2025-11-25', checks: 1 },
  { scenario: 'tools_call', specVersion: '2025-06-18', checks: 2 },
  { scenario: 'tools_call', specVersion: '2025-11-25', checks: 2 },
  { scenario: 'tools_call', specVersion: '2026-07-28', checks: 2 },
  { scenario: 'elicitation-sep1034-client-defaults', specVersion: '2025-11-25', checks: 5 },
  { scenario: 'sse-retry', specVersion: '2025-11-25', checks: 3 },
  { scenario: 'request-metadata', specVersion: '2026-07-28', checks: 5 },
  { scenario: 'sep-2322-client-request-state', specVersion: '2026-07-28', checks: 5 },
  { scenario: 'http-standard-headers', specVersion: '2026-07-28', checks: 9 },
  { scenario: 'http-custom-headers', specVersion: '2026-07-28', checks: 18 },
  { scenario: 'http-invalid-tool-headers', specVersion: '2026-07-28', checks: 12 },
  { scenario: 'json-schema-ref-no-deref', specVersion: '2026-07-28', checks: 1 },
  { scenario: 'json-schema-2020-12-preservation', specVersion: '2025-11-25', checks: 9 },
  { scenario: 'json-schema-2020-12-preservation', specVersion: '2026-07-28', checks: 9 },
];
