import { createHash } from 'node:crypto';
import { ProtocolError } from '../../protocol/errors.js';
import type { RawObject } from '../../protocol/jsonrpc/raw.js';
import type { Caller } from '../caller.js';
import { type Seal, SealBroken } from '../seal.js';
import type { CallState } from './call-state.js';

/**
 * Request states as clients see them: sealed to the caller and to the very request they belong to (MRTR-05). Only the
 * adapters that hand states out and take them back seal and open them; inside the gateway states are plain values.
 */
export class RequestStates {
  constructor(
    private readonly seal: Seal,
    /** How long a state is good, in milliseconds. */
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

/** Of what identifies a request across its rounds: the method, the target and the arguments, however they are written. */
function digest(method: string, params: RawObject): string {
  const args = params.raw('arguments')?.toString('utf8') ?? 'null';
  return createHash('sha256')
    .update(JSON.stringify([method, params.get('name') ?? null, params.get('uri') ?? null, canonical(args)]))
    .digest('base64url');
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[^\s{}[\]:,"]+|[{}[\]]/g;

/**
 * A JSON text without what does not matter: spaces, escapes, the order of members. Not read as values, for the server is
 * sent the text: a number too long for one, or a member that stands twice, must not pass for another.
 */
function canonical(text: string): string {
  const tokens = text.match(TOKEN) ?? [];
  let at = 0;
  const value = (): string => {
    const token = tokens[at++] ?? '';
    if (token === '[' || token === '{') {
      const items: string[] = [];
      const close = token === '[' ? ']' : '}';
      while (at < tokens.length && tokens[at] !== close) items.push(token === '[' ? value() : `${value()}:${value()}`);
      at++;
      return `${token}${(token === '[' ? items : items.sort()).join(',')}${close}`;
    }
    return token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token;
  };
  return value();
}
