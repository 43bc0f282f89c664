import { readdirSync, readFileSync } from 'node:fs';

/** The share of file descriptors reserved for servers, agents and files, independent of clients (fault 10). */
const FOR_UPSTREAMS = 0.2;

/**
 * The number of client connections that are possible beside the open descriptors and the descriptors that are reserved
 * for servers. A listener at its limit closes further connections; without this limit the gateway could not open
 * connections to servers.
 */
export function connectionsWithin(wanted: number, limit = descriptorLimit(), open = openDescriptors()): number {
  if (limit === undefined) return wanted;
  return Math.max(1, Math.min(wanted, Math.floor(limit * (1 - FOR_UPSTREAMS)) - open));
}

/** The soft limit of this process; undefined if there is none or it is unknown. */
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

/** For systems without `/proc`: the process report contains the limit, but is slow to create. */
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
