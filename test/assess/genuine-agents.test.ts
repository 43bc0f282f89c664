/** Agents of the official SDKs: every violation that is reported is real, and expected with its reason. */
import { expect, test, vi } from 'vitest';
import { assess } from '../../src/assess/assess.js';
import { profileOf } from '../../src/assess/profiles.js';
import { failedChecks, type Report } from '../../src/assess/report/model.js';
import { COLUMNS, startAgent } from '../fixtures/a2a/agents.js';

/** Violations that the SDKs and the programs that use them really have, by requirement. */
const REASONS: Readonly<Record<string, string>> = {
  'A2A-S-4a': 'the card is served without Cache-Control and ETag',
  'A2A-S-10a': 'the SDK of 1.0 refuses the version 1.0.7',
  'A2A-S-10b': 'the SDK of 1.0 reads the version from the header only',
  'A2A-S-22': 'the SDK compares no media types with the card',
  'A2A-S-30': 'the SDK accepts a message without parts',
  'A2A-S-30c': 'the SDK fails with an internal error if there is no message',
  'A2A-S-43': 'the SDK of 0.3 answers HTTP+JSON with 500 for an unknown task',
  'A2A-S-53': 'the SDK checks no addresses of webhooks',
  'A2A-S-71a': 'the JSON parser before the SDK answers with a page',
  'A2A-S-71b': 'the SDK of 1.0 answers an object that is not a request with -32602',
  'A2A-S-71e': 'the SDK of 1.0 answers a batch with -32602',
  'A2A-S-74b': 'the JSON parser before the SDK reads application/json only',
  'A2A-S-71f': 'the older SDKs look for a task without an id',
};

const ONE = ['S-10a', 'S-22', 'S-30', 'S-4a'];
const EXPECTED: Readonly<Record<string, readonly string[]>> = {
  'one-rpc': [...ONE, 'S-10b', 'S-53', 'S-71a', 'S-71b', 'S-71e', 'S-74b'],
  'one-rest': [...ONE, 'S-10b', 'S-53'],
  'one-grpc': [...ONE, 'S-53'],
  'one-plain': [...ONE, 'S-10b', 'S-71a', 'S-71b', 'S-71e', 'S-74b'],
  'three-rpc': ['S-30', 'S-30c', 'S-53', 'S-71a', 'S-71f'],
  'three-rest': ['S-30', 'S-43'],
  'three-grpc': ['S-30', 'S-30c', 'S-53'],
  'three-plain': ['S-30', 'S-30c', 'S-71a', 'S-71f'],
  'two-rpc': ['S-30', 'S-30c', 'S-53', 'S-71a', 'S-71f'],
};

const assessed = (url: string): Promise<Report> =>
  assess({
    tool: 'test',
    profile: profileOf('standard')!,
    active: true,
    pace: { interval: 0, answer: 20_000 },
    target: { kind: 'url', url: new URL(url) },
  });

const withoutTimes = ({ times: _, target: __, ...rest }: Report): string =>
  JSON.stringify(rest).replace(/127\.0\.0\.1:\d+/g, 'agent');

for (const [name, expected] of Object.entries(EXPECTED)) {
  test(`${name} has the expected violations, and the same report twice`, async () => {
    // The SDKs write errors that they send to clients.
    vi.spyOn(console, 'error').mockReturnValue();
    const column = COLUMNS.find((each) => each.name === name)!;
    const agent = await startAgent(column);
    try {
      const report = await assessed(agent.url);
      const binding = { jsonrpc: 'JSONRPC', rest: 'HTTP+JSON', grpc: 'GRPC' }[column.binding];
      expect(report.sections.map(({ surfaces }) => surfaces)).toEqual([[`A2A ${column.version} over ${binding}`]]);
      const failed = report.sections.flatMap(failedChecks).map(({ id }) => id);
      expect(failed.toSorted()).toEqual(expected.map((id) => `A2A-${id}`).toSorted());
      for (const id of failed) expect(REASONS[id], id).toBeDefined();
      expect(withoutTimes(await assessed(agent.url))).toBe(withoutTimes(report));
    } finally {
      await agent.close();
    }
  });
}
