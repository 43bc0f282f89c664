import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { npmPackage } from './npm-package.js';
import { nodeAtLeast, nodeOfMajor } from './other-node.js';

const LIMIT = { timeout: 660_000 };

describe('another Node', () => {
  test.each([20, 22, 24])('%i runs, from any source', LIMIT, async (major) => {
    const version = execFileSync(await nodeOfMajor(major), ['--version'], { encoding: 'utf8' });
    expect(version).toMatch(new RegExp(`^v${major}\\.`));
  });

  test('is the running one if that is new enough', async () => {
    expect(await nodeAtLeast(20)).toBe(process.execPath);
  });
});

describe('a package of the registry', () => {
  const small = { name: 'is-number', version: '7.0.0' };
  let cache: string;
  beforeEach(() => {
    cache = mkdtempSync(join(tmpdir(), 'parley-packages-'));
  });
  afterEach(() => {
    rmSync(cache, { recursive: true, force: true });
  });

  test('is the same for concurrent requests, and no other files remain', LIMIT, async () => {
    const folders = await Promise.all([npmPackage(small, cache), npmPackage(small, cache), npmPackage(small, cache)]);
    expect(new Set(folders).size).toBe(1);
    expect(JSON.parse(readFileSync(join(folders[0]!, 'package.json'), 'utf8'))).toMatchObject(small);
    expect(readdirSync(cache)).toEqual(['is-number@7.0.0']);
  });

  test('is installed although a process ended while it held the lock', LIMIT, async () => {
    writeFileSync(join(cache, 'is-number@7.0.0.lock'), String(2 ** 22 + 1));
    mkdirSync(join(cache, '.staging-of-the-dead'));
    expect(existsSync(await npmPackage(small, cache))).toBe(true);
  });

  test('that does not work here is not kept', LIMIT, async () => {
    const verify = () => Promise.reject(new Error('made for another machine'));
    await expect(npmPackage({ ...small, verify }, cache)).rejects.toThrow('made for another machine');
    expect(readdirSync(cache)).toEqual([]);
  });

  test('that cannot be fetched is reported, with the output of npm', LIMIT, async () => {
    const missing = npmPackage({ name: 'is-number', version: '0.0.0-missing' }, cache);
    await expect(missing).rejects.toThrow(/^npm install .* is-number@0\.0\.0-missing ended with code 1\..*ETARGET/s);
    expect(readdirSync(cache)).toEqual([]);
  });
});
