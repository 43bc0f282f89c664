import { afterEach, beforeEach, expect, test } from 'vitest';
import { ProtocolError } from '../../protocol/errors.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import { LIST_KINDS } from '../../protocol/mcp/model.js';
import { SILENT } from '../../telemetry/log.js';
import { type Caller, GATEWAY, principalOf } from '../caller.js';
import { complete, failed, type Outcome } from '../gateway.js';
import type { Upstream } from '../upstream.js';
import { NO_CAPABILITIES } from './capability-set.js';
import { PersonalServers, SIGN_IN_TOOL } from './personal-servers.js';
import { ALL_TOOLS } from './tool-rules.js';

const callerOf = (subject: string): Caller => ({ ...GATEWAY, principal: principalOf({ subject }) });
const [ADA, BEN] = [callerOf('ada'), callerOf('ben')];

let accounts: Set<string>;
let announced: string[];
let servers: PersonalServers;

const required = (): ProtocolError => new ProtocolError('login_required', 'sign in', { outcome: 'not_executed' });

beforeEach(() => {
  accounts = new Set();
  announced = [];
  const upstream = {
    name: 'notes',
    describe: async ({ principal }: Caller) => {
      if (!accounts.has(principal.key)) throw required();
      return { capabilities: { tools: {} } };
    },
    request: async ({ principal }: Caller): Promise<Outcome> =>
      accounts.has(principal.key)
        ? complete(RawObject.from({ tools: [{ name: `of_${principal.key}`, inputSchema: {} }] }))
        : failed(required()),
    keepWatching: async () => {},
    listNews: () => 'polled',
    health: () => ({ status: 'up', speaks: [] }),
  } as unknown as Upstream;
  servers = new PersonalServers({
    upstream,
    rules: ALL_TOOLS,
    patience: 1_000,
    log: SILENT,
    announce: (kind, owner) => announced.push(`${kind} ${owner}`),
  });
});
afterEach(() => servers.close());

async function toolsOf(caller: Caller): Promise<string[]> {
  const { part } = await servers.for(caller).part('tools/list', NO_CAPABILITIES, false);
  return part?.snapshot.items.map(({ key }) => key) ?? [];
}

test('S27: each caller has the list of its own account; before the sign-in it has the tool to sign in', async () => {
  accounts.add('ada');
  expect(await toolsOf(ADA)).toEqual(['of_ada']);
  expect(await toolsOf(BEN)).toEqual([SIGN_IN_TOOL]);
  expect([servers.isSignedOut(ADA), servers.isSignedOut(BEN)]).toEqual([false, true]);
});

test('lists are read with the token of the latest request, because earlier tokens may have expired', async () => {
  accounts.add('ada');
  const given: Caller[] = [];
  servers.close();
  const later = { ...ADA, principal: { ...ADA.principal } };
  servers = new PersonalServers({
    upstream: {
      name: 'notes',
      describe: async () => ({ capabilities: { tools: {} } }),
      request: async (caller: Caller): Promise<Outcome> => {
        given.push(caller);
        return complete(RawObject.from({ tools: [] }));
      },
      keepWatching: async () => {},
      listNews: () => 'polled',
      health: () => ({ status: 'up', speaks: [] }),
    } as unknown as Upstream,
    ...{ rules: ALL_TOOLS, patience: 1_000, log: SILENT, announce: () => {} },
  });
  await toolsOf(ADA);
  servers.for(later);
  await servers.for(ADA).refreshTools(NO_CAPABILITIES);
  expect(given.map(({ principal }) => principal)).toEqual([ADA.principal, ADA.principal]);
  await servers.for(later).refreshTools(NO_CAPABILITIES);
  expect(given.at(-1)?.principal).toBe(later.principal);
});

test('a sign-in is announced to its caller only, and the lists are read again', async () => {
  expect(await toolsOf(ADA)).toEqual([SIGN_IN_TOOL]);
  accounts.add('ada');
  announced.length = 0;
  servers.reset('ada');
  expect(announced).toEqual(LIST_KINDS.map((kind) => `${kind} ada`));
  expect(await toolsOf(ADA)).toEqual(['of_ada']);
});

test('the lists of the least recently used callers are dropped', () => {
  const first = servers.for(ADA);
  for (let n = 0; n < 1_000; n++) servers.for(callerOf(`caller-${n}`));
  expect(servers.for(ADA)).not.toBe(first);
  const kept = servers.for(callerOf('caller-999'));
  expect(servers.for(callerOf('caller-999'))).toBe(kept);
});
