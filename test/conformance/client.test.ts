/**
 * The official suite's client scenarios, run against the gateway as a client of its servers. One at a time, because
 * some of them measure how long a client waits.
 */

import { beforeAll, describe, expect, it } from 'vitest';
import { describeFailures, locateSuite, runClientScenario } from './run.js';
import { CLIENT_SCENARIOS } from './scenarios.js';

const COMMAND = `${process.execPath} test/conformance/client-wrapper.mjs`;

beforeAll(locateSuite, 660_000);

describe('the gateway as a client', () => {
  it.each(CLIENT_SCENARIOS)('$scenario at $specVersion', { timeout: 60_000 }, async ({ checks, ...scenario }) => {
    const result = await runClientScenario({ command: COMMAND, ...scenario });
    expect(result.ok, `${describeFailures({ ...result, scenarios: [result] })}\n${result.output}`).toBe(true);
    expect(result.passed).toBeGreaterThanOrEqual(checks);
  });
});
