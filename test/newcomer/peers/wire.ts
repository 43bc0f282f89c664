/** Clients made of plain requests, so that no SDK repairs the messages on the wire. */
export type Json = Record<string, unknown>;

export interface Answer {
  readonly status: number;
  readonly session: string | undefined;
  /** The messages of the body, an event stream or plain JSON. */
  readonly messages: Json[];
  /** The result among the messages. */
  readonly result: Json | undefined;
  readonly error: { code: number; message: string; data?: Json } | undefined;
}

const META = 'io.modelcontextprotocol/';

let lastId = 0;

async function post(url: string, body: Json, headers: Record<string, string>, signal?: AbortSignal): Promise<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
  const text = await response.text();
  const streamed = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  const messages = (streamed ? [...text.matchAll(/^data: ?(.+)$/gm)].map((match) => match[1]!) : [text])
    .filter((part) => part.startsWith('{'))
    .map((part) => JSON.parse(part) as Json);
  const answer = messages.find((message) => 'result' in message || 'error' in message);
  return {
    status: response.status,
    session: response.headers.get('mcp-session-id') ?? undefined,
    messages,
    result: answer?.['result'] as Json | undefined,
    error: answer?.['error'] as Answer['error'],
  };
}

/** One request of 2026-07-28. */
export function modern(
  url: string,
  method: string,
  params: Json = {},
  options: { capabilities?: Json; meta?: Json; headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<Answer> {
  const version = '2026-07-28';
  const _meta = {
    [`${META}protocolVersion`]: version,
    [`${META}clientCapabilities`]: options.capabilities ?? {},
    ...options.meta,
  };
  const name = params['name'] ?? params['uri'];
  const headers = {
    'mcp-protocol-version': version,
    'mcp-method': method,
    ...(typeof name === 'string' && { 'mcp-name': name }),
    ...options.headers,
  };
  return post(url, { jsonrpc: '2.0', id: ++lastId, method, params: { ...params, _meta } }, headers, options.signal);
}

export const callTool = (
  url: string,
  name: string,
  args: Json = {},
  options: Parameters<typeof modern>[3] & { state?: unknown; answers?: Json } = {},
): Promise<Answer> =>
  modern(
    url,
    'tools/call',
    {
      name,
      arguments: args,
      ...(options.state !== undefined && { requestState: options.state }),
      ...(options.answers && { inputResponses: options.answers }),
    },
    options,
  );

/** The text of a tool's result. */
export function textOf({ result, error }: Answer): string {
  const content = result?.['content'] as { text?: string }[] | undefined;
  return content?.[0]?.text ?? JSON.stringify(error ?? result);
}

/** A legacy client that answers questions as configured. */
export class LegacyClient {
  private constructor(
    private readonly url: string,
    private readonly headers: Record<string, string>,
    readonly initialized: Json,
    private readonly reply: (method: string) => Json,
  ) {}

  static async open(
    url: string,
    revision: string,
    capabilities: Json = {},
    reply: (method: string) => Json = () => ({ error: { code: -1, message: 'no' } }),
  ): Promise<LegacyClient> {
    const clientInfo = { name: 'wire', version: '1' };
    const params = { protocolVersion: revision, capabilities, clientInfo };
    const { session, result } = await post(url, { jsonrpc: '2.0', id: 0, method: 'initialize', params }, {});
    const headers = { 'mcp-session-id': session ?? '', 'mcp-protocol-version': revision };
    const client = new LegacyClient(url, headers, result ?? {}, reply);
    await client.tell('notifications/initialized');
    return client;
  }

  async tell(method: string, params: Json = {}): Promise<void> {
    await post(this.url, { jsonrpc: '2.0', method, params }, this.headers);
  }

  /** Sends a request and answers the questions on its stream. */
  async request(method: string, params: Json = {}): Promise<Answer> {
    const id = ++lastId;
    const response = await fetch(this.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...this.headers },
      body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
    });
    const messages: Json[] = [];
    let rest = '';
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop()!;
      for (const line of lines) await this.take(line, messages);
    }
    await this.take(rest, messages);
    const answer = messages.find((message) => message['id'] === id && !('method' in message));
    return {
      status: response.status,
      session: undefined,
      messages,
      result: answer?.['result'] as Json | undefined,
      error: answer?.['error'] as Answer['error'],
    };
  }

  call(name: string, args: Json = {}): Promise<Answer> {
    return this.request('tools/call', { name, arguments: args });
  }

  private async take(line: string, messages: Json[]): Promise<void> {
    const text = line.replace(/^data: ?/, '');
    if (!text.startsWith('{')) return;
    const message = JSON.parse(text) as Json;
    messages.push(message);
    if (typeof message['method'] === 'string' && message['id'] !== undefined) {
      await post(this.url, { jsonrpc: '2.0', id: message['id'], ...this.reply(message['method']) }, this.headers);
    }
  }
}
