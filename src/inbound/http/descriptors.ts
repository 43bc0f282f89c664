import { readdirSync, readFileSync } from 'node:fs';

/** Of all descriptors a process may have, so many are left for servers, agents and files, whatever clients do (fault 10). */
const FOR_UPSTREAMS = 0.2;

/**
 * How many connections of clients fit beside what the process has open already and what it needs for servers. A listener
 * at its limit closes further connections; without this limit the gateway could not open connections to servers.
 */
export function connectionsWithin(wanted: number, limit = descriptorLimit(), open = openDescriptors()): number {
  if (limit === undefined) return wanted;
  return Math.max(1, Math.min(wanted, Math.floor(limit * (1 - FOR_UPSTREAMS)) - open));
}

/** The soft limit of this process; undefined where there is none, or no way to know it. */
export function descriptorLimit(): number | undefined {
  try {
    return parseLimit(readFileSync('/proc/self/limits', 'utf8'));
  } catch {
    return reportedLimit();
  }
}

export function parseLimit(limits: string): number | undefined {
  const soft = /^Max open files\s+(\S+)/m.exec(limits)?.[1];
  return soft !== undefined && /^\d+$/.test(soft) ? Number(soft) : undefined;
}

/** Systems without `/proc`: the report knows the limit, but takes its time to be made. */
function reportedLimit(): number | undefined {
  const report = process.report?.getReport() as { userLimits?: { open_files?: { soft?: unknown } } } | undefined;
  const soft = Number(report?.userLimits?.open_files?.soft);
  return Number.isFinite(soft) && soft > 0 ? soft : undefined;
}

function openDescriptors(): number {
  try {
    return readdirSync('/proc/self/fd').length;
  } catch {
    return 0;
  }
}
