/** A legacy session that can use any replica for each message. */
import { answerOf } from '../../era-bridge/support/clients.js';
import { Exchange, type Json, type Message } from '../../era-bridge/support/wire.js';
import { ALICE, type Replica } from './replicas.js';

export const REVISION = '2025-11-25';

export interface Called {
  readonly id: number;
  readonly exchange: Exchange;
}

export class Session {
  private id = 0;

  private constructor(readonly headers: Readonly<Record<string, string>>) {}

  static async open(at: Replica, capabilities: Json = {}, token = ALICE): Promise<Session> {
    const authorization = `Bearer ${token}`;
    const exchange = new Exchange(
      at.mcp,
      'POST',
      { authorization },
      {
        jsonrpc: '2.0',
        id: 0,
        method: 'initialize',
        params: { protocolVersion: REVISION, capabilities, clientInfo: { name: 'by-hand', version: '1' } },
      },
    );
    const answer = await answerOf(exchange);
    const id = (await exchange.opened).headers['mcp-session-id'];
    if (typeof id !== 'string') throw new Error(`no session: ${JSON.stringify(answer)}`);
    const session = new Session({ authorization, 'mcp-session-id': id, 'mcp-protocol-version': REVISION });
    await session.tell(at, 'notifications/initialized');
    return session;
  }

  /** The same session id with the token of another caller. */
  as(token: string): Session {
    return new Session({ ...this.headers, authorization: `Bearer ${token}` });
  }

  async tell(at: Replica, method: string, params?: Json): Promise<number> {
    return this.post(at, { jsonrpc: '2.0', method, ...(params && { params }) });
  }

  async respond(at: Replica, id: string | number, result: Json): Promise<number> {
    return this.post(at, { jsonrpc: '2.0', id, result });
  }

  private async post(at: Replica, body: object): Promise<number> {
    const exchange = new Exchange(at.mcp, 'POST', this.headers, body);
    await exchange.ended;
    return exchange.status;
  }

  start(at: Replica, method: string, params: Json = {}): Called {
    const id = ++this.id;
    return { id, exchange: new Exchange(at.mcp, 'POST', this.headers, { jsonrpc: '2.0', id, method, params }) };
  }

  call(at: Replica, name: string, args: Json, progress = false): Called {
    const _meta = progress ? { progressToken: `t${this.id + 1}` } : undefined;
    return this.start(at, 'tools/call', { name, arguments: args, ...(_meta && { _meta }) });
  }

  async request(at: Replica, method: string, params: Json = {}): Promise<Message> {
    return answerOf(this.start(at, method, params).exchange);
  }

  listen(at: Replica, lastEventId?: string): Exchange {
    return new Exchange(at.mcp, 'GET', {
      ...this.headers,
      accept: 'text/event-stream',
      ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
    });
  }

  async status(at: Replica, lastEventId: string): Promise<number> {
    const exchange = this.listen(at, lastEventId);
    await exchange.opened;
    exchange.abort();
    return exchange.status;
  }

  async end(at: Replica): Promise<number> {
    const exchange = new Exchange(at.mcp, 'DELETE', this.headers);
    await exchange.ended;
    return exchange.status;
  }
}

/** The progress values among messages, in order. */
export const progressOf = (messages: readonly Message[]): number[] =>
  messages.filter(({ method }) => method === 'notifications/progress').map(({ params }) => params.progress);

export const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i + 1);
