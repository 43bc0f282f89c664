/** The form of one event of a session's stream on the Bus. */
import type { Id } from '../../protocol/jsonrpc/message.js';
import { type Bus, parseId, START } from '../../state/bus.js';

/**
 * The same bounds as for a stream in memory, plus the first entry. `ttlMs` removes a stream that no replica finishes.
 */
export const KEPT = { maxLen: 1_001, maxBytes: 1024 * 1024, ttlMs: 10 * 60 * 1000 };

/** `h`: the start, not an event. `e`: an event. `x`: the end, with a last event if another replica wrote the end. */
export type EntryKind = 'h' | 'e' | 'x';

export interface Entry {
  readonly kind: EntryKind;
  /** The request that the stream answers. Every entry has it, because any entry may be the only one not trimmed. */
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
