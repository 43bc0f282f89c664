import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Cluster, QUICK, startCluster } from '../../../test/support/state-engines.js';
import { wallMs } from '../clock.js';
import type { Db, Row } from '../db.js';
import type { State } from '../index.js';
import { isStateError, StateError } from '../index.js';
import { ConfiguredKeyring, type Keyring } from '../keyring.js';
import { Audit } from './audit.js';
import { hashOf } from './audit-rows.js';
import { AuditSignatures, type SignedPlace } from './audit-signatures.js';
import type { Checkpoint } from './audit-verifier.js';

const newKey = (id: string) => ({ id, key: randomBytes(32).toString('base64') });
const HOUR = 3_600_000;

describe.each(['sqlite', 'postgres'] as const)('S24: the audit trail on %s', (engine) => {
  const old = newKey('old');
  const keyring = new ConfiguredKeyring([old]);
  let cluster: Cluster;
  let state: State;
  let db: Db;

  beforeAll(async () => {
    cluster = await startCluster(engine, QUICK);
    state = await cluster.open();
    db = state.db;
  }, 120_000);
  beforeEach(() => cluster.clear());
  afterAll(() => cluster.stop());

  const open = (keys: Keyring = keyring, options = {}): Audit => new Audit(db, keys, options);
  const fill = async (audit: Audit, count: number): Promise<void> => {
    await Promise.all(Array.from({ length: count }, (_, i) => audit.write({ i })));
  };
  const chains = async (): Promise<string[]> =>
    (await db.q<{ chain: string }>('SELECT DISTINCT chain FROM audit ORDER BY chain')).map(({ chain }) => chain);
  const onlyChain = async (): Promise<string> => (await chains())[0]!;

  /** Writes a chain again from `seq`, with fitting hashes, as somebody without the key can. */
  async function rewrite(chain: string, from: number, change: (json: string) => string): Promise<void> {
    const rows = await db.q<{ seq: number; at: number; json: string; prev: string }>(
      'SELECT seq, at, json, prev FROM audit WHERE chain = $1 AND seq >= $2 ORDER BY seq',
      [chain, from],
    );
    let { prev } = rows[0]!;
    for (const [index, { seq, at, json }] of rows.entries()) {
      const text = index === 0 ? change(json) : json;
      const hash = hashOf(chain, seq, at, text, prev);
      await db.q('UPDATE audit SET json = $1, prev = $2, hash = $3 WHERE chain = $4 AND seq = $5', [
        ...[text, prev, hash, chain, seq],
      ]);
      prev = hash;
    }
  }

  test('records of many sizes of batches are written once and in order', async () => {
    const audit = open();
    for (const count of [1, 3, 5, 21, 85, 300]) await fill(audit, count);
    expect(await audit.verify()).toMatchObject({ ok: true, records: 415, chains: 1 });
  });

  test('a changed record is named', async () => {
    const audit = open();
    await fill(audit, 10);
    await db.q('UPDATE audit SET json = $1 WHERE seq = 4', ['{"i":99}']);
    expect(await audit.verify()).toMatchObject({
      ok: false,
      chain: await onlyChain(),
      seq: 4,
      reason: 'the record was changed',
    });
  });

  test('a changed time is named', async () => {
    const audit = open();
    await fill(audit, 3);
    await db.q('UPDATE audit SET at = at - 1 WHERE seq = 2');
    expect(await audit.verify()).toMatchObject({ ok: false, seq: 2 });
  });

  test('a removed record is named by its successor', async () => {
    const audit = open();
    await fill(audit, 10);
    await db.q('DELETE FROM audit WHERE seq = 4');
    expect(await audit.verify()).toMatchObject({ ok: false, seq: 5, reason: 'the previous record is missing' });
  });

  test('two exchanged records are named', async () => {
    const audit = open();
    await fill(audit, 10);
    await db.q('UPDATE audit SET seq = 100 WHERE seq = 4');
    await db.q('UPDATE audit SET seq = 4 WHERE seq = 5');
    await db.q('UPDATE audit SET seq = 5 WHERE seq = 100');
    expect(await audit.verify()).toMatchObject({ ok: false, seq: 4 });
  });

  test('an inserted record is named', async () => {
    const audit = open();
    await fill(audit, 3);
    const chain = await onlyChain();
    const [last] = await db.q<{ hash: string }>('SELECT hash FROM audit WHERE seq = 3');
    const hash = hashOf(chain, 4, 1, '{}', last!.hash);
    await db.q('INSERT INTO audit (chain, seq, at, json, prev, hash) VALUES ($1, 4, 1, $2, $3, $4)', [
      ...[chain, '{}', last!.hash, hash],
    ]);
    expect(await audit.verify()).toMatchObject({ ok: false, chain, seq: 4 });
  });

  test('a chain that is rewritten with fitting hashes does not fit its signature', async () => {
    const audit = open();
    await fill(audit, 10);
    const chain = await onlyChain();
    await rewrite(chain, 4, () => '{"i":"forged"}');
    expect(await audit.verify()).toMatchObject({
      ok: false,
      chain,
      seq: 10,
      reason: 'the record was changed: it differs from the signed head',
    });
    const [row] = await db.q<{ hash: string }>('SELECT hash FROM audit WHERE seq = 10');
    await db.q('UPDATE audit_heads SET hash = $1', [row!.hash]);
    expect(await audit.verify()).toMatchObject({
      ok: false,
      reason: 'the head of the chain has a signature that does not fit',
    });
    await db.q('DELETE FROM audit_heads');
    expect(await audit.verify()).toMatchObject({ ok: false, chain, reason: 'the chain has no signed head' });
  });

  test('a cut end is named, also of a chain without any record left', async () => {
    const audit = open();
    await fill(audit, 10);
    const chain = await onlyChain();
    await db.q('DELETE FROM audit WHERE seq > 7');
    expect(await audit.verify()).toMatchObject({ ok: false, chain, seq: 8 });
    await db.q('DELETE FROM audit');
    expect(await audit.verify()).toMatchObject({ ok: false, chain, seq: 10 });
  });

  test('a chain that is removed with its signature is missed by the checkpoint of another', async () => {
    const gateway = open(keyring, { checkpointMs: HOUR });
    await gateway.write('first');
    const command = open();
    await command.write('a key was created');
    const [victim] = await db.q<{ chain: string }>('SELECT chain FROM audit WHERE json = $1', ['"a key was created"']);
    await gateway.checkpoint();
    expect(await gateway.verify()).toMatchObject({ ok: true, chains: 2, records: 3 });
    // Nothing new: no further checkpoint.
    await gateway.checkpoint();
    expect(await gateway.verify()).toMatchObject({ ok: true, records: 3 });
    await db.q('DELETE FROM audit WHERE chain = $1', [victim!.chain]);
    await db.q('DELETE FROM audit_heads WHERE chain = $1', [victim!.chain]);
    expect(await gateway.verify()).toMatchObject({ ok: false, chain: victim!.chain, seq: 1 });
  });

  test('checkpoints of idle replicas do not cause each other', async () => {
    const [one, two] = [open(keyring, { checkpointMs: HOUR }), open(keyring, { checkpointMs: HOUR })];
    await one.write('a');
    await two.write('b');
    for (let round = 0; round < 5; round++) for (const audit of [one, two]) await audit.checkpoint();
    const { records } = (await one.verify()) as { records: number };
    expect(records).toBeLessThanOrEqual(5);
  });

  test('heads of an earlier verification reveal a trail that was put back to an earlier state', async () => {
    const audit = open();
    await fill(audit, 5);
    const rows = await db.q('SELECT chain, seq, at, json, prev, hash FROM audit ORDER BY seq');
    const [head] = await db.q('SELECT seq, hash, key, mac FROM audit_heads');
    await fill(audit, 5);
    const verified = await audit.verify();
    if (!verified.ok) throw new Error(verified.reason);
    await db.q('DELETE FROM audit WHERE seq > 5');
    await db.q('UPDATE audit_heads SET seq = $1, hash = $2, key = $3, mac = $4', [
      ...[head!['seq']!, head!['hash']!, head!['key']!, head!['mac']!],
    ]);
    expect(rows).toHaveLength(5);
    // The database alone cannot tell; the saved heads can.
    expect(await audit.verify()).toMatchObject({ ok: true });
    expect(await audit.verify(verified.heads)).toMatchObject({ ok: false, seq: 10 });
  });

  test('a verification with another key names the head', async () => {
    const audit = open();
    await fill(audit, 3);
    const chain = await onlyChain();
    const other = open(new ConfiguredKeyring([newKey('other')]));
    expect(await other.verify()).toMatchObject({
      ok: false,
      chain,
      seq: 3,
      reason: 'the head of the chain is signed with the key old, which state.keys does not have',
    });
    const same = open(new ConfiguredKeyring([newKey('old')]));
    expect(await same.verify()).toMatchObject({ ok: false, chain, seq: 3 });
  });

  test('after a rotation the sweeper signs with the new key, and the old key can go', async () => {
    await fill(open(), 3);
    await fill(open(), 3);
    const fresh = newKey('fresh');
    const both = open(new ConfiguredKeyring([fresh, old]));
    expect(await both.verify()).toMatchObject({ ok: true });
    await both.sweep();
    expect(await open(new ConfiguredKeyring([fresh])).verify()).toMatchObject({ ok: true, records: 6 });
  });

  test('a rotation does not sign a forged head', async () => {
    await fill(open(), 3);
    await db.q('UPDATE audit_heads SET seq = 2');
    const both = open(new ConfiguredKeyring([newKey('fresh'), old]));
    await both.sweep();
    expect(await both.verify()).toMatchObject({ ok: false });
  });

  test('verification succeeds after retention, and not after a forged retention', async () => {
    await fill(open(), 5);
    const cutoff = wallMs() + 1;
    await expect.poll(wallMs).toBeGreaterThan(cutoff);
    const audit = open(keyring, { keepMs: HOUR });
    await fill(audit, 5);
    while ((await audit.sweep(cutoff + HOUR)) > 0);
    expect(await audit.verify()).toMatchObject({ ok: true, records: 5, chains: 1 });
    const [third] = await db.q<{ chain: string; hash: string }>('SELECT chain, hash FROM audit WHERE seq = 3');
    await db.q('DELETE FROM audit WHERE seq <= 3');
    await db.q('INSERT INTO audit_trimmed (chain, seq, hash) VALUES ($1, 3, $2)', [third!.chain, third!.hash]);
    expect(await audit.verify()).toMatchObject({ ok: false, chain: third!.chain, seq: 3 });
  });

  test('chains of a version that did not sign are signed once', async () => {
    await fill(open(), 3);
    await db.q('DELETE FROM audit_heads');
    await open().write('of the new version');
    expect(await open().verify()).toMatchObject({ ok: true, chains: 2, records: 4 });
  });

  test('reads in the order of time over all chains, in both directions', async () => {
    const [one, two] = [open(), open()];
    for (let i = 0; i < 4; i++) {
      await (i % 2 ? one : two).write(i);
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
    const values = async (range: object): Promise<unknown[]> => {
      const found: unknown[] = [];
      for await (const { value } of one.read(range)) found.push(value);
      return found;
    };
    expect(await values({})).toEqual([0, 1, 2, 3]);
    expect(await values({ newestFirst: true })).toEqual([3, 2, 1, 0]);
    const [, second] = await one.list();
    expect(await values({ since: second!.at })).toEqual([1, 2, 3]);
    expect(await values({ until: second!.at })).toEqual([0]);
  });

  test('reads more records than one page, with equal times', async () => {
    const audit = open();
    // Small groups: each record has a row of its own.
    for (let n = 0; n < 48; n++) await fill(audit, 25);
    await audit.write('last');
    await db.q('UPDATE audit SET at = 5');
    expect(await db.q('SELECT COUNT(*) AS n FROM audit')).toEqual([{ n: 1_201 }]);
    let count = 0;
    for await (const _ of audit.read()) count++;
    for await (const _ of audit.read({ newestFirst: true })) count++;
    expect(count).toBe(2_402);
  });

  describe('records in blocks', () => {
    type Block = { chain: string; seq: number; records: number; block: string; prev: string; at: number };
    const blocks = (): Promise<Block[]> =>
      db.q<Block>(
        'SELECT chain, seq, records, block, prev, at FROM audit WHERE records IS NOT NULL ORDER BY chain, seq',
      );
    const values = async (audit: Audit, range: object = {}): Promise<unknown[]> => {
      const found: unknown[] = [];
      for await (const { value } of audit.read(range)) found.push((value as { i: unknown }).i);
      return found;
    };
    const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

    test('many records that are written together share a row, and are read as they were', async () => {
      const audit = open();
      await fill(audit, 3_000);
      const rows = await blocks();
      expect(rows.length).toBeGreaterThan(0);
      expect(rows.reduce((sum, { records }) => sum + records, 0)).toBeGreaterThan(2_000);
      // Queries find the start of a chain by this number.
      expect(await db.q('SELECT records FROM audit WHERE seq = 1')).toEqual([{ records: null }]);
      expect(await audit.verify()).toMatchObject({ ok: true, records: 3_000, chains: 1 });
      const list = await audit.list({ limit: 5_000 });
      expect(list.map(({ seq, value }) => [seq, value])).toEqual(numbers(3_000).map((i) => [i + 1, { i }]));
      expect(list.every(({ at }, i) => i === 0 || at >= list[i - 1]!.at)).toBe(true);
      expect(await values(audit, { newestFirst: true })).toEqual(numbers(3_000).reverse());
      const { at } = list[1_500]!;
      const since = list.filter((record) => record.at >= at).map(({ value }) => (value as { i: number }).i);
      expect(await values(audit, { since: at })).toEqual(since);
      expect(await values(audit, { until: at })).toEqual(numbers(3_000).slice(0, 3_000 - since.length));
    });

    test('any text survives: long, with line breaks, beyond ASCII', async () => {
      const audit = open();
      const texts = numbers(200).map(
        (i) => [`${i}\n\u2028 é😀\ud800`, 'x'.repeat(300_000), '😀'.repeat(40_000), ''][i % 50 ? 0 : i / 50]!,
      );
      await Promise.all(texts.map((i) => audit.write({ i })));
      expect((await blocks()).length).toBeGreaterThan(0);
      expect(await audit.verify()).toMatchObject({ ok: true, records: 200 });
      expect(await values(audit)).toEqual(texts);
    });

    test('blocks of several chains at the same time are read in the order of time', async () => {
      const audits = [open(), open(), open()];
      for (let round = 0; round < 4; round++) await Promise.all(audits.map((audit) => fill(audit, 500)));
      const times: number[] = [];
      for await (const { at } of audits[0]!.read()) times.push(at);
      expect(times).toHaveLength(6_000);
      expect(times).toEqual([...times].sort((a, b) => a - b));
      const back: number[] = [];
      for await (const { at } of audits[0]!.read({ newestFirst: true })) back.push(at);
      expect(back).toEqual(times.reverse());
      expect(await audits[0]!.verify()).toMatchObject({ ok: true, records: 6_000, chains: 3 });
    });

    test('each change of a block is found, and its first record is named', async () => {
      const audit = open();
      for (let n = 0; n < 3; n++) await fill(audit, 100);
      const [, row] = await blocks();
      const { chain, seq, records, block } = row!;
      const first = seq - records + 1;
      const lines = block.split('\n');
      const where = ' WHERE chain = $2 AND seq = $3';
      const put = (column: string, value: string | number | null): Promise<unknown> =>
        db.q(`UPDATE audit SET ${column} = $1${where}`, [value, chain, seq]);
      const changes: readonly (readonly [
        column: string,
        value: string | number | null,
        before: string | number | null,
      ])[] = [
        ['block', block.replace('{"i":5}', '{"i":6}'), block],
        ['block', [lines[1]!, lines[0]!, ...lines.slice(2)].join('\n'), block],
        ['block', lines.slice(1).join('\n'), block],
        ['block', `${block}\n${lines.at(-1)}`, block],
        ['block', null, block],
        ['json', '{"i":"more"}', ''],
        ['at', row!.at + 1, row!.at],
        ['prev', 'x', row!.prev],
      ];
      for (const [column, value, before] of changes) {
        await put(column, value);
        expect(await audit.verify(), `${column}: ${value}`).toMatchObject({ ok: false, chain, seq: first });
        await put(column, before);
        expect(await audit.verify()).toMatchObject({ ok: true, records: 300 });
      }
      for (const other of [null, 1, records - 1, records + 1]) {
        await put('records', other);
        expect(await audit.verify(), `records: ${other}`).toMatchObject({ ok: false, chain });
        await put('records', records);
      }
      expect(await audit.verify()).toMatchObject({ ok: true });
      await db.q('DELETE FROM audit WHERE seq = $1', [seq]);
      expect(await audit.verify()).toMatchObject({
        ok: false,
        chain,
        seq: seq + 1,
        reason: 'the previous record is missing',
      });
    });

    test('a block that is written again with a fitting hash does not fit its signature', async () => {
      const audit = open();
      await fill(audit, 100);
      const { chain, seq, at, block, prev } = (await blocks()).at(-1)!;
      const forged = block.replace('{"i":98}', '{"i":97}');
      await db.q('UPDATE audit SET block = $1, hash = $2 WHERE seq = $3', [
        ...[forged, hashOf(chain, seq, at, forged, prev), seq],
      ]);
      expect(await audit.verify()).toMatchObject({ ok: false, chain, reason: expect.stringContaining('signed head') });
    });

    test('a checkpoint inside of a block counts', async () => {
      const gateway = open();
      await gateway.write('first');
      await open().write('a key was created');
      const [victim] = await db.q<SignedPlace & Row>('SELECT chain, seq, hash FROM audit WHERE json = $1', [
        '"a key was created"',
      ]);
      const checkpoint: Checkpoint = { kind: 'checkpoint', heads: [victim!] };
      await Promise.all([fill(gateway, 60), gateway.write(checkpoint), fill(gateway, 60)]);
      expect((await blocks()).some(({ block }) => block.includes('"checkpoint"'))).toBe(true);
      expect(await gateway.verify()).toMatchObject({ ok: true, records: 123 });
      await db.q('DELETE FROM audit WHERE chain = $1', [victim!.chain]);
      await db.q('DELETE FROM audit_heads WHERE chain = $1', [victim!.chain]);
      expect(await gateway.verify()).toMatchObject({ ok: false, chain: victim!.chain, seq: 1 });
    });

    test('verification succeeds after retention of blocks', async () => {
      await fill(open(), 700);
      const cutoff = wallMs() + 1;
      await expect.poll(wallMs).toBeGreaterThan(cutoff);
      const audit = open(keyring, { keepMs: HOUR });
      await fill(audit, 700);
      while ((await audit.sweep(cutoff + HOUR)) > 0);
      expect(await audit.verify()).toMatchObject({ ok: true, records: 700, chains: 1 });
      expect(await values(audit)).toEqual(numbers(700));
      expect(await audit.sweep(cutoff + HOUR)).toBe(0);
    });

    test('a chain of the version before blocks is verified and read, and continues in new chains', async () => {
      const signatures = new AuditSignatures(keyring);
      let prev = '';
      const at = wallMs() - 10;
      for (let seq = 1; seq <= 5; seq++) {
        const json = `{"i":${seq - 6}}`;
        const hash = createHash('sha256').update(`old\n${seq}\n${at}\n${prev}\n${json}`).digest('hex');
        await db.q('INSERT INTO audit (chain, seq, at, json, prev, hash) VALUES ($1, $2, $3, $4, $5, $6)', [
          ...['old', seq, at, json, prev, hash],
        ]);
        prev = hash;
      }
      const { key, mac } = signatures.sign('head', { chain: 'old', seq: 5, hash: prev });
      await db.q('INSERT INTO audit_heads (chain, seq, hash, at, key, mac) VALUES ($1, $2, $3, $4, $5, $6)', [
        ...['old', 5, prev, at, key, mac],
      ]);
      const audit = open();
      await fill(audit, 100);
      expect((await blocks()).length).toBeGreaterThan(0);
      expect(await audit.verify()).toMatchObject({ ok: true, records: 105, chains: 2 });
      expect(await values(audit)).toEqual([-5, -4, -3, -2, -1, ...numbers(100)]);
      await db.q(`UPDATE audit SET json = '{"i":7}' WHERE chain = 'old' AND seq = 2`);
      expect(await audit.verify()).toMatchObject({ ok: false, chain: 'old', seq: 2 });
    });

    test('an attempt that succeeded without an answer is repeated as it was', async () => {
      let fail = 2;
      const unsure: Db = {
        dialect: db.dialect,
        q: (sql, params) => db.q(sql, params),
        tx: async (statements) => {
          const found = await db.tx(statements);
          if (fail-- > 0) throw new StateError('unavailable', 'no answer');
          return found;
        },
        close: async () => {},
      };
      const audit = new Audit(unsure, keyring, { collectMs: 1 });
      for (const i of numbers(100)) audit.add({ i });
      // More records arrive while the first attempt is repeated.
      await expect.poll(() => fail).toBeLessThan(2);
      for (const i of numbers(100)) audit.add({ i: i + 100 });
      await expect.poll(() => audit.waiting, { timeout: 10_000 }).toBe(0);
      expect(await open().verify()).toMatchObject({ ok: true, records: 200, chains: 1 });
      expect(await values(audit)).toEqual(numbers(200));
    });
  });
});

describe('while the database is away', () => {
  /** A database whose writes fail until `up`. */
  const failing = () => {
    const made: string[] = [];
    const db = {
      up: false,
      made,
      dialect: 'sqlite' as const,
      q: async () => [],
      tx: async (statements: readonly (readonly [string, readonly unknown[]])[]) => {
        if (!db.up) throw new StateError('unavailable', 'away');
        for (const [sql, params] of statements)
          if (sql.startsWith('INSERT INTO audit ('))
            for (let i = 4; i < params.length; i += 6) made.push(String(params[i]));
        return [];
      },
      close: async () => {},
    };
    return db;
  };
  const keyring = new ConfiguredKeyring([newKey('k')]);

  test('a record that must be stored now is refused, and stored later with its number', async () => {
    const db = failing();
    const audit = new Audit(db as unknown as Db, keyring);
    await expect(audit.writeNow('intent')).rejects.toSatisfy((error) => isStateError(error, 'unavailable'));
    expect(audit.add('outcome')).toBe(true);
    db.up = true;
    await expect.poll(() => db.made, { timeout: 10_000 }).toEqual(['"intent"', '"outcome"']);
    expect(audit.waiting).toBe(0);
  });

  test('records beyond the spool are refused', () => {
    const audit = new Audit(failing() as unknown as Db, keyring, { spool: 3 });
    expect([1, 2, 3, 4].map((n) => audit.add(n))).toEqual([true, true, true, false]);
  });

  test('records that are still waiting at the end are counted as lost', async () => {
    const audit = new Audit(failing() as unknown as Db, keyring);
    audit.add(1);
    audit.add(2);
    await audit.close();
    expect(audit.lost).toBe(2);
  });
});
