import { createHash } from 'node:crypto';
import { ProtocolError } from '../../protocol/errors.js';
import type { RawObject } from '../../protocol/jsonrpc/raw.js';
import type { Caller } from '../caller.js';
import { type Seal, SealBroken } from '../seal.js';
import type { CallState } from './call-state.js';

/**
 * Seals request states for clients. A sealed state is valid only for its caller and its request (MRTR-05). Only inbound
 * adapters seal and open states; inside the gateway states are plain values.
 */
export class RequestStates {
  constructor(
    private readonly seal: Seal,
    /** The lifetime of a state, in milliseconds. */
    readonly ttl: number,
  ) {}

  close(caller: Caller, method: string, params: RawObject, state: CallState): string {
    return this.seal.close('state', caller.principal.key, [digest(method, params), state], this.ttl);
  }

  open(caller: Caller, method: string, params: RawObject, sealed: string): CallState {
    let opened: [string, CallState];
    try {
      opened = this.seal.open('state', caller.principal.key, sealed) as [string, CallState];
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
      throw new ProtocolError('invalid_state', `The request state cannot be used: ${error.message}`);
    }
    if (opened[0] !== digest(method, params)) {
      throw new ProtocolError('invalid_state', 'The request state belongs to another request');
    }
    return opened[1];
  }
}

/** A digest of the parts that identify a request across its rounds: method, target and arguments in canonical form. */
function digest(method: string, params: RawObject): string {
  const args = params.raw('arguments')?.toString('utf8') ?? 'null';
  return createHash('sha256')
    .update(JSON.stringify([method, params.get('name') ?? null, params.get('uri') ?? null, canonical(args)]))
    .digest('base64url');
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[^\s{}[\]:,"]+|[{}[\]]/g;

/**
 * Normalizes spaces, escapes and the order of members in a JSON text. The text is not parsed to values, because the
 * server gets the text: numbers beyond the double range and duplicate members must stay distinguishable.
 */
function canonical(text: string): string {
  const tokens = text.match(TOKEN) ?? [];
  let at = 0;
  const value = (): string => {
    const token = tokens[at++] ?? '';
    if (token === '[' || token === '{') {
      const items: (readonly [name: string, value: string])[] = [];
      const close = token === '[' ? ']' : '}';
      while (at < tokens.length && tokens[at] !== close) items.push([token === '[' ? '' : value(), value()]);
      at++;
      // The sort is stable: members of the same name keep their order, because servers use the first or the last.
      if (token === '{') items.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      return `${token}${items.map(([name, text]) => `${name}:${text}`).join(',')}${close}`;
    }
    return token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token;
  };
  return value();
}
