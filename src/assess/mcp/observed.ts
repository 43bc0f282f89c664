/** Rules over everything that a server sent during an assessment. */
import { asObject, isObject, type Json } from '../json.js';
import { fail, PASS, skip, type Verdict } from '../requirement.js';
import type { Reply } from '../wire/reply.js';
import type { McpSurface } from './surface.js';

export type Probe = (surface: McpSurface) => Verdict | Promise<Verdict>;

export interface Seen {
  readonly message: Json;
  readonly reply: Reply;
}

/** Every message that arrived, with the reply it belongs to. */
export const seenBy = ({ peer }: Pick<McpSurface, 'peer'>): Seen[] =>
  peer.log.flatMap((reply) =>
    reply.messages
      .flatMap((message) => (Array.isArray(message) ? message : [message]))
      .filter(isObject)
      .filter((message) => !isHttpError(message, reply))
      .map((message) => ({ message, reply })),
  );

/**
 * Whether the body of a refusal has a form of its own, such as the errors of OAuth: only its status is defined. Errors
 * of JSON-RPC have codes below zero.
 */
export function isHttpError(message: Json, { status = 0 }: Pick<Reply, 'status'>): boolean {
  if (status < 400 || 'jsonrpc' in message) return false;
  const { code } = asObject(message['error']);
  return !(typeof code === 'number' && code < 0);
}

export const isResponse = (message: Json): boolean =>
  !('method' in message) && ('result' in message || 'error' in message);

export const isRequest = (message: Json): boolean =>
  typeof message['method'] === 'string' && 'id' in message && message['id'] !== null;

export const isNotification = (message: Json, method: string): boolean =>
  message['method'] === method && !('id' in message);

export interface ObservationOptions {
  /** The messages that the rule is about. Default: all. */
  readonly about?: (seen: Seen) => boolean;
  /** Returns what is wrong with a message. */
  readonly wrong: (seen: Seen, surface: McpSurface) => string | undefined;
  /** The reason to skip if no message is concerned; undefined passes. */
  readonly none?: string;
}

/** A probe over all messages that arrived. It runs after the other probes. */
export function observation({ about, wrong, none }: ObservationOptions): Probe {
  return (surface) => {
    const seen = seenBy(surface).filter((each) => about?.(each) ?? true);
    for (const each of seen) {
      const reason = wrong(each, surface);
      if (reason !== undefined) return fail(reason, each.reply);
    }
    return seen.length === 0 && none !== undefined ? skip(none) : PASS;
  };
}

/** A probe over all replies. */
export function replies(
  about: (reply: Reply, surface: McpSurface) => boolean,
  wrong: (reply: Reply, surface: McpSurface) => string | undefined,
  none: string,
): Probe {
  return (surface) => {
    const concerned = surface.peer.log.filter((reply) => about(reply, surface));
    for (const reply of concerned) {
      const reason = wrong(reply, surface);
      if (reason !== undefined) return fail(reason, reply);
    }
    return concerned.length === 0 ? skip(none) : PASS;
  };
}
