import { randomBytes } from 'node:crypto';
import { afterEach, expect, it } from 'vitest';
import { ADMIN_ROLE, type Caller, type Principal, principalOf } from '../../../core/caller.js';
import type { HostedTasks } from '../../../core/era-bridge/hosted-tasks.js';
import { ALL_SERVERS, complete, type Gateway } from '../../../core/gateway.js';
import { Seal } from '../../../core/seal.js';
import { RawObject } from '../../../protocol/jsonrpc/raw.js';
import type { SessionRecord, SessionRecords } from './session-record.js';
import { type Carrier, Sessions, type SessionsOptions } from './sessions.js';

const seal = (() => {
  const key = { id: 'k', key: randomBytes(32) };
  return new Seal({ active: key, find: () => key.key }, () => Date.now());
})();

/** A record store that outlives the sessions. */
class Rows implements SessionRecords {
  readonly rows = new Map<string, SessionRecord>();
  create = async (record: SessionRecord): Promise<void> => {
    this.rows.set(record.key, JSON.parse(JSON.stringify(record)) as SessionRecord);
  };
  load = async (key: string): Promise<SessionRecord | undefined> => this.rows.get(key);
  update = async (): Promise<void> => {};
  touch = async (): Promise<boolean> => true;
  remove = async (key: string): Promise<void> => void this.rows.delete(key);
  onRemoved = (): void => {};
  onProgress = (): void => {};
}

const carrier = (): Carrier => ({ reachable: false, connected: false, unsolicited: () => {}, ended: () => {} });

const opened: Sessions<Carrier>[] = [];
afterEach(() => {
  for (const sessions of opened.splice(0)) sessions.close();
});

function sessionsOver(records: SessionRecords, callers: Caller[]): Sessions<Carrier> {
  const gateway: Gateway = {
    call: async (caller, { id }) => {
      // Indexed by the ids of the requests, from 1 on.
      callers[Number(id) - 1] = caller;
      return complete(RawObject.from({ content: [] }));
    },
    listen: async () => ({ honoured: {}, close: () => {} }),
    describe: async () => ({ capabilities: {}, instructions: undefined, missing: [] }),
    onTask: (_, __, ___, work) => work(),
  };
  const options = {
    gateway,
    info: { name: 'parley', version: '0' },
    seal,
    idle: 60_000,
    limits: { inAll: 10, perCaller: undefined },
    answerTime: 1_000,
    logging: false,
    tasks: {} as HostedTasks,
    records,
    identified: true,
    strictVersions: false,
    rootsChanged: () => {},
    ended: () => {},
  } as unknown as SessionsOptions;
  const sessions = new Sessions<Carrier>(options);
  opened.push(sessions);
  return sessions;
}

const CHANNEL = { send: () => {}, finish: () => {} };
const ada = (...roles: string[]): Principal => principalOf({ subject: 'ada', roles });

async function call(sessions: Sessions<Carrier>, id: string, principal: Principal, n: number): Promise<void> {
  const { session } = await sessions.find(id, principal, ALL_SERVERS, carrier);
  const params = RawObject.from({ name: 'x' });
  await session.handle(principal, { kind: 'request', id: n, method: 'tools/call', params } as never, CHANNEL as never);
}

const rolesOf = (callers: readonly Caller[]): (readonly string[])[] => callers.map(({ principal }) => principal.roles);

const open = (sessions: Sessions<Carrier>, principal: Principal) =>
  sessions.open(principal, ALL_SERVERS, RawObject.from({ protocolVersion: '2025-06-18', capabilities: {} }), carrier);

it('a restored session does not restore roles that its caller has lost', async () => {
  const rows = new Rows();
  const callers: Caller[] = [];
  const { id } = await open(sessionsOver(rows, callers), ada(ADMIN_ROLE));
  await call(sessionsOver(rows, callers), id, ada(), 1);
  expect(rolesOf(callers)).toEqual([[]]);
});

it('a session stored by an earlier version with roles does not restore them either', async () => {
  const rows = new Rows();
  const callers: Caller[] = [];
  const { id, session } = await open(sessionsOver(rows, callers), ada());
  const old = { ...rows.rows.get(session.key)!, principal: { name: 'ada', admin: true } };
  rows.rows.set(session.key, old as unknown as SessionRecord);
  await call(sessionsOver(rows, callers), id, ada(), 1);
  expect(rolesOf(callers)).toEqual([[]]);
});

it('every request of a session has the roles of its own caller, also for concurrent requests', async () => {
  const callers: Caller[] = [];
  const sessions = sessionsOver(new Rows(), callers);
  const { id } = await open(sessions, ada(ADMIN_ROLE));
  await Promise.all([
    call(sessions, id, ada(), 1),
    call(sessions, id, ada(ADMIN_ROLE), 2),
    call(sessions, id, ada(), 3),
  ]);
  expect(rolesOf(callers)).toEqual([[], [ADMIN_ROLE], []]);
});

it('belongs to the key of its caller: other callers do not find it, even with the same name', async () => {
  const sessions = sessionsOver(new Rows(), []);
  const { id } = await open(sessions, ada());
  for (const other of [principalOf({ subject: 'bob' }), principalOf({ issuer: 'https://idp.example', subject: 'ada' })])
    await expect(sessions.find(id, other, ALL_SERVERS, carrier)).rejects.toMatchObject({ reason: 'session_not_found' });
});

it('stores no roles', async () => {
  const rows = new Rows();
  await open(sessionsOver(rows, []), ada(ADMIN_ROLE));
  expect(JSON.stringify([...rows.rows.values()])).not.toContain(ADMIN_ROLE);
});
