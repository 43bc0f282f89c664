import { readFileSync } from 'node:fs';

/** Where a control group says how much CPU time there is in a period, in its second version and in its first. */
const RATIONS = [
  ['/sys/fs/cgroup/cpu.max'],
  ['/sys/fs/cgroup/cpu/cpu.cfs_quota_us', '/sys/fs/cgroup/cpu/cpu.cfs_period_us'],
] as const;

/** How many cores' time the process may use: that of all, where no control group rations it or none can be asked. */
export function coresAllotted(read: (file: string) => string = readText): number {
  for (const files of RATIONS) {
    try {
      const [time, period] = files.map(read).join(' ').trim().split(/\s+/).map(Number);
      const cores = (time ?? 0) / (period ?? 0);
      if (cores > 0 && Number.isFinite(cores)) return cores;
    } catch {
      // This version is not in use here.
    }
  }
  return Number.POSITIVE_INFINITY;
}

function readText(file: string): string {
  return readFileSync(file, 'utf8');
}
