/** Genuine servers over stdio, and the reference server of the protocol over each transport. */
import { beforeAll, describe, expect, it } from 'vitest';
import { executable, install } from '../third-party/packages.js';
import { CAPABILITY_DEPENDENT } from '../third-party/servers.js';
import { assessGenuine, failuresOf, type Genuine, PROGRAMS, REASONS, referenceServer } from './genuine.js';

const INSTALLATION = 30 * 60_000;
const LONGEST = 20 * 60_000;
const { package: everything, command } = CAPABILITY_DEPENDENT[0]!;

async function expectKnown(server: Genuine): Promise<void> {
  const [first, second] = await assessGenuine(server, 2);
  expect(first!.sections.flatMap(({ surfaces }) => surfaces)).toEqual(server.surfaces);
  expect(first!.complete).toBe(true);
  expect(failuresOf(first!)).toEqual([...server.failures].sort());
  expect(server.failures.filter((id) => REASONS[id] === undefined)).toEqual([]);
  expect({ ...second!, times: undefined }).toEqual({ ...first!, times: undefined });
}

describe('a genuine program', () => {
  for (const server of PROGRAMS)
    it(`has the known violations only, twice: ${server.name}`, () => expectKnown(server), LONGEST);
});

describe('the reference server', () => {
  beforeAll(async () => {
    await install(everything);
  }, INSTALLATION);

  for (const server of referenceServer(executable(everything, command)))
    it(`has the known violations only, twice: ${server.name}`, () => expectKnown(server), LONGEST);
});
