import { createHash, createHmac, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FaultyDb } from '../../test/support/faulty-state.js';
import { configFrom } from '../config/load.js';
import { OPERATOR } from '../core/audit-trail.js';
import { Audit, type Db, openState, type State, StateError } from '../state/index.js';
import { SILENT } from '../telemetry/log.js';
import { auditTrailOf, callAuditOf } from './audit-writer.js';

let folder: string;
let state: State;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'parley-trail-'));
  state = await openState({ data: folder, sweepMs: 0 });
});
afterEach(async () => {
  await state.close();
  rmSync(folder, { recursive: true, force: true });
});

const configOf = (audit: object = {}) => configFrom({ audit }).config;
const record = { ...OPERATOR, action: 'key.create', subject: 'k1' } as const;
const stored = async (): Promise<unknown[]> => (await state.audit.list()).map(({ value }) => value);

/** A trail whose database refuses every write. */
const away = (onFailure: string, lines: object[] = []) => {
  const tx = async (): Promise<never> => {
    throw new StateError('unavailable', 'away');
  };
  const db = { dialect: 'sqlite', q: async () => [], tx, close: async () => {} } as unknown as Db;
  const log = { ...SILENT, error: (fields: object) => void lines.push(fields) };
  return auditTrailOf(configOf({ onFailure }), { audit: new Audit(db, state.keyring, { spool: 2 }) }, log);
};

test('a change is recorded with its outcome when it is acknowledged', async () => {
  const trail = auditTrailOf(configOf(), state, SILENT);
  expect(await trail.change(record, () => 'done')).toBe('done');
  expect(await stored()).toEqual([{ kind: 'change', ...record, outcome: 'ok' }]);
});

test('a failed change is recorded with its reason and not its message', async () => {
  const trail = auditTrailOf(configOf(), state, SILENT);
  const failing = trail.change(record, () => Promise.reject(new RangeError('a secret')));
  await expect(failing).rejects.toThrow('a secret');
  expect(await stored()).toEqual([{ kind: 'change', ...record, outcome: 'error', reason: 'RangeError' }]);
});

test('records facts that are known only after a change, and records nothing if nothing changed', async () => {
  const trail = auditTrailOf(configOf(), state, SILENT);
  const given = { ...record, details: { name: 'ci' } };
  await trail.change(
    given,
    () => 3,
    (count) => ({ subject: 'k3', details: { count } }),
  );
  await trail.change(
    given,
    () => 0,
    () => undefined,
  );
  expect(await stored()).toEqual([
    { kind: 'change', ...record, subject: 'k3', details: { name: 'ci', count: 3 }, outcome: 'ok' },
  ]);
});

test('audit.onFailure closed: the intent of a change is stored before the change', async () => {
  const trail = auditTrailOf(configOf({ onFailure: 'closed' }), state, SILENT);
  let before: unknown[] = [];
  await trail.change(record, async () => {
    before = await stored();
  });
  expect(before).toEqual([{ kind: 'change', ...record, phase: 'intent' }]);
  expect(await stored()).toHaveLength(2);
});

test('audit.onFailure closed: a change does not happen if its intent cannot be stored', async () => {
  let happened = false;
  const work = (): void => {
    happened = true;
  };
  await expect(away('closed').change(record, work)).rejects.toMatchObject({ reason: 'audit_unavailable' });
  expect(happened).toBe(false);
});

test('audit.onFailure open: a change happens although its record cannot be stored', async () => {
  expect(await away('open').change(record, () => 'done')).toBe('done');
});

test('audit.onFailure open: records beyond the spool are counted and logged, and no call fails', () => {
  const lines: object[] = [];
  const trail = away('open', lines);
  for (let i = 0; i < 5; i++) trail.record({ kind: 'event', event: 'pin.changed' });
  expect(lines).toEqual([{ event: 'audit.lost', lost: 1 }]);
  expect(trail.status()).toEqual({ lost: 3, waiting: 2 });
  expect(trail.before({ kind: 'event', event: 'pin.changed' })).toBeUndefined();
});

test('with the audit trail switched off, changes happen without records', async () => {
  const trail = auditTrailOf(configOf({ enabled: false }), state, SILENT);
  expect(await trail.change(record, () => 'done')).toBe('done');
  trail.record({ kind: 'event', event: 'pin.changed' });
  expect(await stored()).toEqual([]);
});

test.each([
  [{}, true, true],
  [{}, false, false],
  [{ calls: 'all' }, false, true],
  [{ calls: 'none' }, true, false],
  [{ enabled: false, calls: 'all' }, true, false],
])('with %j and identified callers %s, calls are recorded: %s', (settings, identified, recorded) => {
  const trail = auditTrailOf(configOf(settings), state, SILENT);
  expect(callAuditOf(configOf(settings), state, trail, identified) !== undefined).toBe(recorded);
});

test('S24: the hash of arguments is keyed, names its key, and changes with the key', () => {
  const hashWith = (id: string) => {
    const active = { id, key: randomBytes(32) };
    const keyring = { active, find: () => active.key };
    return callAuditOf(configOf(), { keyring }, auditTrailOf(configOf(), state, SILENT), true)!.hash!;
  };
  const [one, two] = [hashWith('one'), hashWith('two')];
  const key = Buffer.alloc(32, 7);
  const known = callAuditOf(
    configOf(),
    { keyring: { active: { id: 'k', key }, find: () => key } },
    auditTrailOf(configOf(), state, SILENT),
    true,
  )!;
  const derived = createHmac('sha256', key).update('parley audit arguments').digest();
  for (const text of ['', 'a', 'é'.repeat(40), 'x'.repeat(16_384), 'x'.repeat(16_385), 'x'.repeat(100_000)])
    expect(known.hash!(text)).toBe(`k:${createHash('sha256').update(derived).update(text).digest('hex').slice(0, 32)}`);
  expect(one('{"a":1}')).toBe(one(Buffer.from('{"a":1}')));
  expect(one('{"a":1}')).not.toBe(one('{"a":2}'));
  expect(one('{"a":1}')).toMatch(/^one:[\da-f]{32}$/);
  expect(two('{"a":1}').slice(4)).not.toBe(one('{"a":1}').slice(4));
});

test('excluded methods are matched by patterns, and the memory for them is bounded', () => {
  const settings = configOf({ exclude: ['ping', 'notifications/*'] });
  const { excludes } = callAuditOf(settings, state, auditTrailOf(settings, state, SILENT), true)!;
  for (let i = 0; i < 1_000; i++) expect(excludes(`made-up-${i}`)).toBe(false);
  expect(['ping', 'notifications/x', 'tools/call'].map(excludes)).toEqual([true, true, false]);
});

test('a database that fails at random loses and repeats no record', async () => {
  const audit = new Audit(new FaultyDb(state.db, { seed: 7, delayMs: 2 }), state.keyring);
  const trail = auditTrailOf(configOf(), { audit }, SILENT);
  for (let i = 0; i < 200; i++) trail.record({ kind: 'event', event: 'pin.changed', subject: String(i) });
  await expect.poll(() => audit.waiting, { timeout: 20_000 }).toBe(0);
  const subjects = ((await state.audit.list({ limit: 1_000 })) as { value: { subject: string } }[]).map(
    (each) => each.value.subject,
  );
  expect(subjects).toEqual(Array.from({ length: 200 }, (_, i) => String(i)));
  expect(await state.audit.verify()).toMatchObject({ ok: true });
});
