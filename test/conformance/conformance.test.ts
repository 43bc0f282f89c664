/**
 * The official suite's server scenarios through the gateway, in front of legacy, modern and dual servers. `npm test`
 * runs two revisions before the dual server; `npm run test:conformance` runs all.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway } from '../support/gateway.js';
import { disagreements, type Target } from './expected-failures.js';
import { startFixture, type Variant } from './fixture.js';
import { CHOSEN_VERSIONS, describeFailures, isWhole, locateSuite, runServerSuite } from './run.js';
import {
  CHECKS,
  isMeaningfulWithPrefix,
  isTasksScenario,
  PREFIXED_SCENARIOS,
  SCENARIOS,
  TASKS_CHECKS,
  TASKS_SCENARIOS,
} from './scenarios.js';

const TIMEOUT = { timeout: 300_000 };

beforeAll(locateSuite, 660_000);

/** A gateway in front of fixtures, while the surrounding block runs. */
function gatewayBefore(servers: Record<string, Variant>): { url(path: string): string } {
  let base: string;
  const closers: (() => unknown)[] = [];
  beforeAll(async () => {
    const upstreams: Record<string, { url: string }> = {};
    for (const [name, variant] of Object.entries(servers)) {
      const fixture = await startFixture(variant);
      closers.unshift(fixture.close);
      upstreams[name] = { url: fixture.url };
    }
    const gateway = await startGateway({ servers: upstreams });
    closers.unshift(() => gateway.close());
    base = gateway.url;
  }, 300_000);
  afterAll(async () => {
    for (const close of closers) await close();
  });
  return { url: (path) => `${base}${path}` };
}

const VARIANTS = isWhole ? (['dual', 'legacy', 'modern'] as const) : (['dual'] as const);

describe.each(VARIANTS)('before the %s server', (variant) => {
  const target: Target = `gateway before ${variant}`;
  const gateway = gatewayBefore({ everything: variant });

  it.each(CHOSEN_VERSIONS)('serves clients of %s', TIMEOUT, async (specVersion) => {
    const result = await runServerSuite({ url: gateway.url('/mcp/everything'), specVersion });
    expect(disagreements(target, specVersion, result)).toEqual([]);
    expect(result.scenarios).toHaveLength(SCENARIOS[specVersion]);
    // One scenario is not applicable: a modern server cannot end a stream during a call to make its client reconnect.
    const passedOver = variant === 'modern' && specVersion === '2025-11-25' ? 1 : 0;
    expect(result.passed, describeFailures(result)).toBe(CHECKS[specVersion] - passedOver);
  });
});

describe('before several servers, with prefixed names', () => {
  const target: Target = 'gateway before dual, prefixed names';
  const gateway = gatewayBefore({ everything: 'dual', tasks: 'tasks' });

  it.each(CHOSEN_VERSIONS)('serves clients of %s', TIMEOUT, async (specVersion) => {
    const result = await runServerSuite({ url: gateway.url('/mcp'), specVersion, scenarios: isMeaningfulWithPrefix });
    expect(disagreements(target, specVersion, result)).toEqual([]);
    expect(result.scenarios).toHaveLength(PREFIXED_SCENARIOS[specVersion]);
    expect(result.warnings, describeFailures(result)).toBe(0);
  });
});

describe('before the tasks server', () => {
  const gateway = gatewayBefore({ tasks: 'tasks' });

  it('passes every check of the tasks extension', TIMEOUT, async () => {
    const result = await runServerSuite({
      url: gateway.url('/mcp/tasks'),
      suite: 'pending',
      scenarios: isTasksScenario,
    });
    expect(disagreements('gateway before tasks', undefined, result)).toEqual([]);
    expect(result.scenarios).toHaveLength(TASKS_SCENARIOS);
    expect(result.passed, describeFailures(result)).toBe(TASKS_CHECKS);
  });
});
