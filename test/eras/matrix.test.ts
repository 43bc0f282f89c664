/**
 * The newest revision with every other, and every revision with itself, over one transport; `npm run test:eras` runs
 * every pair over all transports.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CASES } from './cases.js';
import { openTestbed, runCell, type Testbed } from './matrix.js';
import { CLIENT_TRANSPORTS, REVISIONS, type Revision, type ServerTransport } from './peers.js';

/** The columns together cover each transport at least once. */
const TRANSPORT: Readonly<Record<Revision, ServerTransport>> = {
  '2024-11-05': 'sse',
  '2025-03-26': 'stdio',
  '2025-06-18': 'http',
  '2025-11-25': 'http',
  '2026-07-28': 'http',
};

let testbed: Testbed;

beforeAll(async () => {
  testbed = await openTestbed(REVISIONS.map((revision) => [revision, TRANSPORT[revision]] as const));
});

afterAll(() => testbed?.close());

const newest = REVISIONS.at(-1);
const pairs = REVISIONS.flatMap((client) => REVISIONS.map((server) => [client, server] as const)).filter(
  ([client, server]) => client === server || client === newest || server === newest,
);
const cases = [...CASES.gateway, ...CASES.bridge];

test.each(pairs)(
  'S0-32, S0-33, S0-35, S0-36, S0-38, S0-39, S0-40, S0-41, S0-42, S0-43, S0-51, S0-52, S1-02, S1-10, S1-19, S1-22, S1-23, S1-24, S1-26, S2-30: a client of %s and a server of %s',
  async (client, server) => {
    const peer = testbed.server(server, TRANSPORT[server]);
    const now = cases.filter((one) => one.last !== true);
    const outcomes = await runCell(testbed, client, CLIENT_TRANSPORTS[client][0]!, peer, now);
    expect(outcomes.filter(({ problem }) => problem !== undefined)).toEqual([]);
  },
);

test.each(pairs)('cancelled by a client of %s at a server of %s', async (client, server) => {
  const peer = testbed.server(server, TRANSPORT[server]);
  const last = cases.filter((one) => one.last === true);
  const outcomes = await runCell(testbed, client, CLIENT_TRANSPORTS[client][0]!, peer, last);
  expect(outcomes.filter(({ problem }) => problem !== undefined)).toEqual([]);
});
