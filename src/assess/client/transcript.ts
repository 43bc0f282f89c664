/** Everything that a client did at the scripted server. */
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import { asObject, isObject, type Json } from '../json.js';
import type { Evidence } from '../requirement.js';
import { evidenceText, textOf } from '../wire/evidence.js';

/** Messages beyond this number are not kept. */
const MOST_HEARD = 5_000;
const MOST_SESSIONS = 1_000;

/** One message of the client, or one HTTP request without a message. */
export interface Heard {
  readonly message: unknown;
  /** The method and the headers of HTTP, with names in lower case; undefined over stdio. */
  readonly http?: { readonly method: string; readonly headers: Readonly<Record<string, string>> };
  /** Requests of the client that had no answer when this message arrived. */
  readonly open: readonly unknown[];
}

/** A question of the server to the client. */
export interface Question {
  readonly method: string;
  readonly answers: Json[];
}

export class Transcript {
  readonly heard: Heard[] = [];
  readonly questions = new Map<unknown, Question>();
  /** The cursors that the server gave out. */
  readonly cursors = new Set<unknown>();
  /** The sessions that the server gave out. */
  readonly sessions = new Set<string>();
  /** Lines and bodies that are not JSON. */
  readonly garbage: string[] = [];
  revision: Revision | undefined;
  initialize: Json | undefined;
  private readonly open = new Set<unknown>();

  constructor(public transport: 'http' | 'sse' | 'stdio') {}

  hear(message: unknown, http?: Heard['http']): void {
    if (this.heard.length >= MOST_HEARD) return;
    this.heard.push({ message, ...(http && { http }), open: [...this.open] });
    const { id, method } = asObject(message);
    if (method !== undefined && id !== undefined) this.open.add(id);
    else if (method === undefined) this.questions.get(id)?.answers.push(asObject(message));
  }

  /** A session for the client. */
  opened(session: string): void {
    if (this.sessions.size < MOST_SESSIONS) this.sessions.add(session);
  }

  answered(id: unknown): void {
    this.open.delete(id);
  }

  /** Messages that are objects. */
  get messages(): readonly (Heard & { readonly message: Json })[] {
    return this.heard.filter((each): each is Heard & { message: Json } => isObject(each.message));
  }

  get requests(): readonly (Heard & { readonly message: Json })[] {
    return this.messages.filter(({ message }) => message['method'] !== undefined && message['id'] !== undefined);
  }

  /** The capabilities that the client declared in its handshake. */
  get capabilities(): Json {
    return asObject(asObject(this.initialize?.['params'])['capabilities']);
  }
}

export function heardEvidence({ message, http }: Heard): { readonly evidence: Evidence } {
  const head = http
    ? [http.method, ...Object.entries(http.headers).map(([name, value]) => `${name}: ${shown(name, value)}`), '']
    : [];
  const body = message === undefined ? [] : [textOf(message)];
  return { evidence: evidenceText([...head, ...body].join('\n'), '', []) };
}

const HIDDEN = /^(authorization|cookie|x-api-key|host|user-agent|content-length|connection|mcp-session-id)$/;
const shown = (name: string, value: string): string => (HIDDEN.test(name) ? '***' : value);
