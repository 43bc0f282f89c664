/** Remote agents of the gateway, and servers whose answers a test defines. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Agent, Exchange, Passed } from '../../src/core/a2a/agent.js';
import { Cancellation, GATEWAY } from '../../src/core/caller.js';
import type { Credentials } from '../../src/identity/upstream-credentials.js';
import { type AgentSettings, buildAgent } from '../../src/outbound/a2a/build-agent.js';
import { Egress, type EgressSettings, type LookupAll } from '../../src/outbound/egress.js';
import { HttpClient } from '../../src/outbound/http/index.js';
import type { SendMessageRequest, StreamResponse } from '../../src/protocol/a2a/model.js';
import type { JsonObject } from '../../src/protocol/jsonrpc/raw.js';
import { SILENT } from '../../src/telemetry/log.js';
import { closeHttp, listen } from '../fixtures/a2a/agent.js';

export const CALLER = GATEWAY;

export const exchange = (more: Partial<Exchange> = {}): Exchange => ({
  cancellation: new Cancellation(),
  extensions: [],
  forward: {},
  ...more,
});

export const saying = (text: string, more: JsonObject = {}): Passed<SendMessageRequest> => ({
  value: {
    message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...more },
  } as SendMessageRequest,
});

export async function all(events: AsyncIterable<Passed<StreamResponse>>): Promise<StreamResponse[]> {
  const found: StreamResponse[] = [];
  for await (const { value } of events) found.push(value);
  return found;
}

/** Opens servers and agents for a test and closes them afterwards. */
export class Stage {
  private readonly closing: (() => unknown)[] = [];

  later(close: () => unknown): void {
    this.closing.push(close);
  }

  async close(): Promise<void> {
    for (const close of this.closing.splice(0).reverse()) await close();
  }

  agent(
    url: string,
    settings: Partial<AgentSettings> = {},
    {
      lookup,
      credentials,
      limit = 1024 * 1024,
      ...egress
    }: Partial<EgressSettings> & { lookup?: LookupAll; limit?: number; credentials?: Credentials } = {},
  ): Agent {
    const policy = new Egress({ allowPrivate: false, ports: [], ...egress }, lookup);
    const guarded = new HttpClient({ connectTimeout: 2_000, egress: policy });
    const agent = buildAgent(
      'it',
      {
        url,
        version: 'auto',
        binding: 'auto',
        headers: {},
        tls: {},
        signatures: 'verify',
        timeouts: { connect: 2_000, call: 5_000, callMax: 20_000 },
        ...settings,
      },
      {
        guarded,
        egress: policy,
        limits: { event: limit },
        explains: false,
        log: SILENT,
        ...(credentials && { credentials }),
      },
    );
    this.later(async () => {
      await agent.close();
      await guarded.close();
    });
    return agent;
  }

  async server(answer: Answer): Promise<Script> {
    const script = new Script(answer);
    const { server, url } = await listen((request, response) => script.serve(request, response));
    script.url = url;
    this.later(() => closeHttp(server));
    return script;
  }
}

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  readonly body: JsonObject;
}

export type Answer = (asked: Asked, response: ServerResponse, script: Script) => unknown;

/** A server whose answers the test defines. */
export class Script {
  url = '';
  readonly asked: Asked[] = [];

  constructor(private readonly answer: Answer) {}

  serve(request: IncomingMessage, response: ServerResponse): void {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const { method = '', url: path = '', headers } = request;
      const asked = { method, path, headers, text, body: text === '' ? {} : (JSON.parse(text) as JsonObject) };
      this.asked.push(asked);
      this.answer(asked, response, this);
    });
  }

  /** The requests so far, without those for the card. */
  get calls(): Asked[] {
    return this.asked.filter(({ path }) => !path.includes('/.well-known/'));
  }

  get cards(): Asked[] {
    return this.asked.filter(({ path }) => path.includes('/.well-known/'));
  }
}

export function json(
  response: ServerResponse,
  value: unknown,
  status = 200,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
}

/** A card of the newest version with these interfaces. */
export const card = (
  interfaces: readonly { url: string; protocolBinding?: string; protocolVersion?: string; tenant?: string }[],
  more: JsonObject = {},
): JsonObject => ({
  name: 'it',
  description: 'An agent for tests.',
  version: '1',
  supportedInterfaces: interfaces.map((each) => ({ protocolBinding: 'JSONRPC', protocolVersion: '1.0', ...each })),
  capabilities: { streaming: true, pushNotifications: true },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [{ id: 'a', name: 'A', description: 'Does a.', tags: ['a'] }],
  ...more,
});

export const TASK = {
  id: 'task-1',
  contextId: 'context-1',
  status: { state: 'TASK_STATE_COMPLETED', timestamp: '2026-01-01T00:00:00.000Z' },
};
