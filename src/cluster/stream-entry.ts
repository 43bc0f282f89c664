/** What stands on the Bus for one event of a session's stream. */
import type { Id } from '../protocol/jsonrpc/message.js';
import { type Bus, parseId, START } from '../state/bus.js';

/** The same bounds as in memory beside the first entry, and a stream that nobody finishes ends with its age. */
export const KEPT = { maxLen: 1_001, maxBytes: 1024 * 1024, ttlMs: 10 * 60 * 1000 };

/** The beginning, which is no event; an event; the end, with a last event where somebody else had to write it. */
export type EntryKind = 'h' | 'e' | 'x';

export interface Entry {
  readonly kind: EntryKind;
  /** The request the stream answers: every entry says so, because any of them may be the only one left. */
  readonly request: Id | undefined;
  readonly text: string;
}

export function writeEntry({ kind, request, text }: Entry): string {
  return `${kind}${request === undefined ? '' : JSON.stringify(request)}\n${text}`;
}

export function readEntry(written: string): Entry {
  const line = written.indexOf('\n');
  const request = written.slice(1, line);
  return {
    kind: written[0] as EntryKind,
    request: request === '' ? undefined : (JSON.parse(request) as Id),
    text: written.slice(line + 1),
  };
}

export async function newestEntry(bus: Bus, name: string): Promise<Entry | undefined> {
  const tail = await bus.tail(name);
  const last = tail === START ? undefined : parseId(tail);
  if (!last) return undefined;
  const found = await bus.read(name, `${last.epoch}-${last.seq - 1}`, 1_000);
  const newest = found.at(-1);
  return newest && readEntry(newest[1]);
}
