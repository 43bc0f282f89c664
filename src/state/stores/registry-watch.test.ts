import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openState } from '../index.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'parley-watch-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('a process notices a change by another process on the same embedded database within a second', async () => {
  const a = await openState({ data: folder });
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const b = await openState({ data: folder });
  try {
    const seen: number[] = [];
    const stop = b.registry.watch(await b.registry.version(), (version) => seen.push(version));
    await a.registry.put('server', 'files', { url: 'u1' });
    vi.advanceTimersByTime(1_000);
    await expect.poll(() => seen, { timeout: 60_000 }).toEqual([await a.registry.version()]);
    stop();
  } finally {
    vi.useRealTimers();
    await b.close();
    await a.close();
  }
});
