import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ConfiguredKeyring, FileKeyring } from './keyring.js';

const fresh = (): string => randomBytes(32).toString('base64');
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('configured keys', () => {
  test('the first key seals, and every key opens until it expires', () => {
    const [one, two, three] = [fresh(), fresh(), fresh()];
    const ring = new ConfiguredKeyring([
      { id: 'new', key: one },
      { id: 'old', key: two, until: Date.now() + 60_000 },
      { id: 'over', key: three, until: Date.now() - 1 },
    ]);
    expect(ring.active).toMatchObject({ id: 'new', key: Buffer.from(one, 'base64') });
    expect(ring.find('new')).toEqual(Buffer.from(one, 'base64'));
    expect(ring.find('old')).toEqual(Buffer.from(two, 'base64'));
    expect(ring.find('over')).toBeUndefined();
    expect(ring.find('none')).toBeUndefined();
  });

  test.each([
    ['no key at all', []],
    ['a short key', [{ id: 'a', key: randomBytes(16).toString('base64') }]],
    [
      'an id used twice',
      [
        { id: 'a', key: fresh() },
        { id: 'a', key: fresh() },
      ],
    ],
    ['an id that cannot be written into a token', [{ id: 'a.b', key: fresh() }]],
    ['an active key with an end', [{ id: 'a', key: fresh(), until: 1 }]],
  ])('%s is refused, and the message says what to do', (_, keys) => {
    expect(() => new ConfiguredKeyring(keys)).toThrow(expect.objectContaining({ code: 'config' }));
  });

  test('a refusal never prints a key', () => {
    const key = randomBytes(31).toString('base64');
    expect(() => new ConfiguredKeyring([{ id: 'a', key }])).toThrow(expect.not.stringContaining(key));
  });
});

describe('keys in a file', () => {
  let folder: string;
  let path: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'parley-keys-'));
    path = join(folder, 'data', 'keyring.json');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('are generated at the first start with mode 0600, and kept', async () => {
    const first = await FileKeyring.open(path);
    expect(first.active.key).toHaveLength(32);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, 'data')).mode & 0o777).toBe(0o700);
    const again = await FileKeyring.open(path);
    expect(again.active).toMatchObject(first.active);
    expect(readdirSync(join(folder, 'data'))).toEqual(['keyring.json']);
  });

  test('are the same for all processes that start at the same time', async () => {
    const module = new URL('./keyring.ts', import.meta.url).href;
    const loader = new URL('../../test/support/ts.mjs', import.meta.url).href;
    const program = `import { FileKeyring } from ${JSON.stringify(module)};
      console.log((await FileKeyring.open(process.argv[1])).active.id)`;
    const start = (): Promise<string> =>
      new Promise((resolve, reject) => {
        const child = spawn(process.execPath, ['--import', loader, '--input-type=module', '-e', program, path]);
        let out = '';
        child.stdout.on('data', (chunk) => {
          out += chunk;
        });
        child.once('error', reject);
        child.once('close', () => resolve(out.trim()));
      });
    const ids = await Promise.all(Array.from({ length: 4 }, start));
    expect(ids[0]).toMatch(/^[0-9a-f]{12}$/);
    expect(new Set(ids).size).toBe(1);
  });

  test('rotate without invalidating sealed values, and other processes see the new key', async () => {
    const [mine, other] = [await FileKeyring.open(path), await FileKeyring.open(path)];
    const before = mine.active;
    const id = await mine.rotate(2_000);
    expect(mine.active.id).toBe(id);
    expect(mine.active.key).not.toEqual(before.key);
    expect(mine.find(before.id)).toEqual(before.key);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    await expect.poll(() => other.active.id, { timeout: 5_000 }).toBe(id);
    expect(other.find(before.id)).toEqual(before.key);
    await sleep(2_100);
    expect(mine.find(before.id)).toBeUndefined();
    await mine.rotate();
    expect(readFileSync(path, 'utf8')).not.toContain(before.id);
    expect(readdirSync(join(folder, 'data'))).toEqual(['keyring.json']);
  });

  test('two concurrent rotations both take effect', async () => {
    const [a, b] = [await FileKeyring.open(path), await FileKeyring.open(path)];
    const ids = await Promise.all([a.rotate(), b.rotate()]);
    const { keys } = JSON.parse(readFileSync(path, 'utf8')) as { keys: { id: string }[] };
    expect(keys).toHaveLength(3);
    for (const id of ids) expect(keys.map((key) => key.id)).toContain(id);
  });
});
