/** Which scenarios of the suite mean something where. */

import type { SpecVersion } from './run.js';

/** How many checks a server that has everything passes: the measure for a gateway that changes nothing. */
export const CHECKS: Record<SpecVersion, number> = {
  '2025-03-26': 3,
  '2025-06-18': 56,
  '2025-11-25': 84,
  '2026-07-28': 152,
};

/** How many scenarios the suite has for a server at each revision. */
export const SCENARIOS: Record<SpecVersion, number> = {
  '2025-03-26': 1,
  '2025-06-18': 27,
  '2025-11-25': 33,
  '2026-07-28': 40,
};

/** The tasks extension: ten scenarios, of which `tasks-status-notifications` is skipped by the suite itself. */
export const isTasksScenario = (name: string): boolean => name.startsWith('tasks-');
export const TASKS_SCENARIOS = 10;
export const TASKS_CHECKS = 44;

/**
 * The suite knows its tools and prompts by name, so where names carry a prefix only these scenarios say something.
 * Some others pass there too, but only because the call they make is refused as it should be.
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

/** How many of those apply at each revision. */
export const PREFIXED_SCENARIOS: Record<SpecVersion, number> = {
  '2025-03-26': 1,
  '2025-06-18': 13,
  '2025-11-25': 15,
  '2026-07-28': 14,
};

/**
 * The client scenarios that an upstream leg can be put to, with the checks that have to succeed at least: some count
 * one for every method they see, or for every capability that is declared. Not here: `auth/*`, and `sep-2640-*`, which
 * ask what a host does with the skills it has loaded, and nothing of what lies between.
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
