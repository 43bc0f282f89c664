/**
 * The official suite's client scenarios, run against the gateway as a client of its servers. One at a time, because
 * some of them measure how long a client waits. `npm test` runs those of the newest revision.
 */

import { beforeAll, describe, expect, it } from 'vitest';
import { describeFailures, isWhole, locateSuite, runClientScenario, SPEC_VERSIONS } from './run.js';
import { CLIENT_SCENARIOS } from './scenarios.js';

const COMMAND = `${process.execPath} test/conformance/client-wrapper.mjs`;

const scenarios = CLIENT_SCENARIOS.filter(({ specVersion }) => isWhole || specVersion === SPEC_VERSIONS.at(-1));

beforeAll(locateSuite, 660_000);

describe('the gateway as a client', () => {
  it.each(scenarios)('$scenario at $specVersion', { timeout: 300_000 }, async ({ checks, ...scenario }) => {
    const result = await runClientScenario({ command: COMMAND, ...scenario });
    expect(result.ok, `${describeFailures({ ...result, scenarios: [result] })}\n${result.output}`).toBe(true);
    expect(result.passed).toBeGreaterThanOrEqual(checks);
  });
});
