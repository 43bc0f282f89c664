import { expect, test } from 'vitest';
import { coresAllotted } from './cores.js';

const system =
  (files: Record<string, string>) =>
  (file: string): string => {
    const text = files[file];
    if (text === undefined) throw Object.assign(new Error(file), { code: 'ENOENT' });
    return text;
  };

test.each([
  ['half a core, version 2', { '/sys/fs/cgroup/cpu.max': '50000 100000\n' }, 0.5],
  ['no ration, version 2', { '/sys/fs/cgroup/cpu.max': 'max 100000\n' }, Number.POSITIVE_INFINITY],
  [
    'four cores, version 1',
    { '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '400000\n', '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n' },
    4,
  ],
  [
    'no ration, version 1',
    { '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1\n', '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n' },
    Number.POSITIVE_INFINITY,
  ],
  ['nothing to read', {}, Number.POSITIVE_INFINITY],
  ['nonsense', { '/sys/fs/cgroup/cpu.max': '\n' }, Number.POSITIVE_INFINITY],
])('%s', (_, files, cores) => {
  expect(coresAllotted(system(files))).toBe(cores);
});

test('this machine says something', () => {
  expect(coresAllotted()).toBeGreaterThan(0);
});
