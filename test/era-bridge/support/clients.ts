/** Handwritten clients, one per era: the test determines every member of their messages. */
import { Exchange, type Json, type Message } from './wire.js';

const PREFIX = 'io.modelcontextprotocol';
export const TASKS = `${PREFIX}/tasks`;
export const RELATED = `${PREFIX}/related-task`;

export const ALL_QUESTIONS = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
export const FORM = { elicitation: { form: {} } };
export const WITH_TASKS = { extensions: { [TASKS]: {} } };

const NAMED: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
};

export interface CallOptions {
  readonly inputResponses?: object;
  readonly requestState?: string;
  readonly meta?: Json;
  readonly capabilities?: Json;
  /** The text to send in place of the serialized arguments. */
  readonly rawArguments?: string;
}

/** A client of 2026-07-28. */
export class ModernClient {
  private id = 0;

  constructor(
    readonly url: string,
    readonly capabilities: Json = ALL_QUESTIONS,
    readonly token?: string,
  ) {}

  start(method: string, params: Json = {}, options: Pick<CallOptions, 'meta' | 'capabilities'> = {}): Exchange {
    const name = params[NAMED[method] ?? ''];
    const headers = {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof name === 'string' && { 'mcp-name': name }),
      ...(this.token !== undefined && { authorization: `Bearer ${this.token}` }),
    };
    return new Exchange(this.url, 'POST', headers, {
      jsonrpc: '2.0',
      id: ++this.id,
      method,
      params: {
        ...params,
        _meta: {
          [`${PREFIX}/protocolVersion`]: '2026-07-28',
          [`${PREFIX}/clientInfo`]: { name: 'by-hand', version: '1' },
          [`${PREFIX}/clientCapabilities`]: options.capabilities ?? this.capabilities,
          ...options.meta,
        },
      },
    });
  }

  async request(method: string, params: Json = {}, options: CallOptions = {}): Promise<Message> {
    return answerOf(this.start(method, params, options));
  }

  startCall(name: string, args: Json = {}, { inputResponses, requestState, ...options }: CallOptions = {}): Exchange {
    return this.start(
      'tools/call',
      {
        name,
        arguments: args,
        ...(inputResponses && { inputResponses }),
        ...(requestState !== undefined && { requestState }),
      },
      options,
    );
  }

  async call(name: string, args: Json = {}, options: CallOptions = {}): Promise<Message> {
    return answerOf(this.startCall(name, args, options));
  }
}

export async function answerOf(exchange: Exchange): Promise<Message> {
  const messages = await exchange.ended;
  const answer = messages.find((message) => message.method === undefined);
  if (!answer) throw new Error(`no answer (HTTP ${exchange.status}): ${JSON.stringify(messages)}`);
  return answer;
}

type Answerer = (question: Message) => Json | { readonly error: object } | undefined;

/** A legacy client over Streamable HTTP with an open GET stream. */
export class LegacyClient {
  private id = 0;
  /** Every request and notification of the server, with the stream on which it arrived. */
  readonly heard: (Message & { readonly on: string })[] = [];
  answer: Answerer = () => undefined;
  private general: Exchange | undefined;
  initialized: Message = {};

  private constructor(
    readonly url: string,
    readonly revision: string,
    private headers: Record<string, string>,
  ) {}

  static async open(
    url: string,
    revision: string,
    capabilities: Json = {},
    { token, listen = true }: { readonly token?: string; readonly listen?: boolean } = {},
  ): Promise<LegacyClient> {
    const auth: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const client = new LegacyClient(url, revision, auth);
    const exchange = new Exchange(url, 'POST', auth, {
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: { protocolVersion: revision, capabilities, clientInfo: { name: 'by-hand', version: '1' } },
    });
    client.initialized = await answerOf(exchange);
    const session = (await exchange.opened).headers['mcp-session-id'];
    if (typeof session !== 'string') throw new Error(`no session: ${JSON.stringify(client.initialized)}`);
    client.headers = {
      ...auth,
      'mcp-session-id': session,
      ...(revision >= '2025-06-18' && { 'mcp-protocol-version': revision }),
    };
    await client.tell('notifications/initialized');
    if (listen) {
      client.general = new Exchange(url, 'GET', { ...client.headers, accept: 'text/event-stream' });
      client.general.onMessage((message) => client.hear(message, 'general'));
      await client.general.opened;
    }
    return client;
  }

  private hear(message: Message, on: string): void {
    if (message.method === undefined) return;
    this.heard.push({ ...message, on });
    if (message.id === undefined) return;
    const answer = this.answer(message);
    if (answer === undefined) return;
    void this.respond(message.id, answer);
  }

  async respond(id: string | number, answer: Json | { readonly error: object }): Promise<void> {
    const body = 'error' in answer ? answer : { result: answer };
    await new Exchange(this.url, 'POST', this.headers, { jsonrpc: '2.0', id, ...body }).ended;
  }

  async tell(method: string, params?: Json): Promise<void> {
    await new Exchange(this.url, 'POST', this.headers, { jsonrpc: '2.0', method, ...(params && { params }) }).ended;
  }

  start(method: string, params: Json = {}): { readonly id: number; readonly exchange: Exchange } {
    const id = ++this.id;
    const exchange = new Exchange(this.url, 'POST', this.headers, { jsonrpc: '2.0', id, method, params });
    exchange.onMessage((message) => this.hear(message, `request ${id}`));
    return { id, exchange };
  }

  async request(method: string, params: Json = {}): Promise<Message> {
    return answerOf(this.start(method, params).exchange);
  }

  call(name: string, args: Json = {}, more: Json = {}): Promise<Message> {
    return this.request('tools/call', { name, arguments: args, ...more });
  }

  /** Ends the session and its GET stream. */
  async end(): Promise<void> {
    await new Exchange(this.url, 'DELETE', this.headers).ended;
    this.general?.abort();
  }
}

/** The text of a result's first block. */
export const textOf = (message: Message): string =>
  message.result?.content?.[0]?.text ?? `no text in ${JSON.stringify(message)}`;

/** The questions of an `input_required` result, by key. */
export const asked = (message: Message): Record<string, { method: string; params: Record<string, unknown> }> => {
  if (message.result?.resultType !== 'input_required') throw new Error(`no question: ${JSON.stringify(message)}`);
  return message.result.inputRequests ?? {};
};

export const accept = (content: Json = {}): Json => ({ action: 'accept', content });

/** Gives the same answer to every question of a round. */
export const answersTo = (message: Message, answer: Json): Record<string, Json> =>
  Object.fromEntries(Object.keys(asked(message)).map((key) => [key, answer]));
