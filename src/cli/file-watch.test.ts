import { mkdtempSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FileWatch } from './file-watch.js';

let folder: string;
let watch: FileWatch | undefined;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'parley-watch-'));
});
afterEach(() => {
  watch?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Watches `file`; each call of the returned function resolves at the next event. */
function events(file: string): () => Promise<string> {
  const seen: string[] = [];
  let wake = (): void => {};
  const add = (what: string) => (): void => {
    seen.push(what);
    wake();
  };
  watch = new FileWatch(file, { changed: add('changed'), removed: add('removed'), interval: 20, settle: 20 });
  return async () => {
    while (seen.length === 0) await new Promise<void>((resolve) => (wake = resolve));
    return seen.shift()!;
  };
}

test('reports a changed file, a removed file, and a file that is replaced', async () => {
  const file = path.join(folder, 'parley.yaml');
  writeFileSync(file, 'a');
  const next = events(file);
  writeFileSync(file, 'ab');
  expect(await next()).toBe('changed');
  rmSync(file);
  expect(await next()).toBe('removed');
  writeFileSync(path.join(folder, 'new'), 'abc');
  renameSync(path.join(folder, 'new'), file);
  expect(await next()).toBe('changed');
});

test('follows a symbolic link that is exchanged, and ignores a file whose content is the same', async () => {
  const file = path.join(folder, 'parley.yaml');
  for (const name of ['one', 'two']) writeFileSync(path.join(folder, name), name);
  symlinkSync('one', file);
  const next = events(file);
  utimesSync(path.join(folder, 'one'), new Date(), new Date(Date.now() + 5_000));
  symlinkSync('two', path.join(folder, 'link'));
  renameSync(path.join(folder, 'link'), file);
  expect(await next()).toBe('changed');
  utimesSync(path.join(folder, 'two'), new Date(), new Date(Date.now() + 10_000));
  rmSync(file);
  expect(await next()).toBe('removed');
});
