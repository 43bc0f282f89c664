/** The official SDK client of each revision behind one small interface, and the fixture servers. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { listening } from '../support/fixture-address.js';
import { BIN } from '../support/gateway.js';

export const REVISIONS = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'] as const;
export type Revision = (typeof REVISIONS)[number];
export type ServerTransport = 'stdio' | 'sse' | 'http' | 'json';
export type ClientTransport = 'http' | 'sse' | 'stdio';

export const rankOf = (revision: Revision): number => REVISIONS.indexOf(revision);

/** The transports of a revision's servers. */
export const SERVER_TRANSPORTS: Readonly<Record<Revision, readonly ServerTransport[]>> = {
  '2024-11-05': ['stdio', 'sse'],
  '2025-03-26': ['stdio', 'sse', 'http', 'json'],
  '2025-06-18': ['stdio', 'sse', 'http', 'json'],
  '2025-11-25': ['stdio', 'sse', 'http', 'json'],
  '2026-07-28': ['stdio', 'http'],
};

/** The transports of a revision's clients: over HTTP, the transport of that revision. */
export const CLIENT_TRANSPORTS: Readonly<Record<Revision, readonly ClientTransport[]>> = {
  '2024-11-05': ['sse', 'stdio'],
  '2025-03-26': ['http', 'stdio'],
  '2025-06-18': ['http', 'stdio'],
  '2025-11-25': ['http', 'stdio'],
  '2026-07-28': ['http', 'stdio'],
};

export type Json = { readonly [key: string]: unknown };

// Servers

const FIXTURE = fileURLToPath(new URL('../fixtures/eras/server.mjs', import.meta.url));

export interface Entry {
  readonly event: string;
  readonly tag?: unknown;
  readonly pid: number;
  readonly [member: string]: unknown;
}

export interface FixtureServer {
  readonly revision: Revision;
  readonly transport: ServerTransport;
  /** The server's name in the gateway's configuration. */
  readonly name: string;
  /** The server's entry in the gateway's configuration. */
  readonly settings: object;
  readonly url: string | undefined;
  /** The events recorded in all processes of the server. */
  happened(event: string, tag?: unknown): Entry[];
  /** Ends a held call of the server's tool `pause`. */
  release(tag: string): void;
  close(): Promise<void>;
}

export const nameOf = (revision: Revision, transport: ServerTransport): string => `s${revision}-${transport}`;

export async function startServer(
  revision: Revision,
  transport: ServerTransport,
  more: Readonly<Record<string, string>> = {},
): Promise<FixtureServer> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-eras-'));
  const file = join(folder, 'record');
  const args = [FIXTURE, revision, transport];
  const env = { ERAS_RECORD: file, ...more };
  let child: ChildProcess | undefined;
  let url: string | undefined;
  if (transport !== 'stdio') {
    child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, ...env } });
    url = await listening(child);
  }
  return {
    revision,
    transport,
    name: nameOf(revision, transport),
    settings: url === undefined ? { command: process.execPath, args, env } : { url },
    url,
    happened: (event, tag) =>
      entries(file).filter((entry) => entry.event === event && (tag === undefined || entry.tag === tag)),
    release: (tag) => appendFileSync(file, `${JSON.stringify({ event: 'released', tag, pid: process.pid })}\n`),
    close: async () => {
      if (child && child.exitCode === null) {
        const exit = once(child, 'exit');
        child.kill('SIGTERM');
        await exit;
      }
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

function entries(file: string): Entry[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return [];
  }
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Entry);
}

// Clients

/** Answers a question of the server; a thrown error becomes an error response. */
export type Answer = (method: string, params: Json) => Json | Promise<Json>;

export interface ClientOptions {
  readonly capabilities?: Json;
  readonly answer?: Answer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Where a client connects: a URL of the gateway, or the configuration file that `parley stdio` is started with. */
export interface Endpoint {
  readonly transport: ClientTransport;
  readonly url: string;
  readonly config: string;
}

export interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: Json;
  readonly result?: Json;
  readonly error?: Json;
}

export interface Question {
  readonly method: string;
  readonly params: Json;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly timeout?: number;
  readonly onprogress?: (progress: Json) => void;
}

export interface EraClient {
  readonly revision: Revision;
  readonly transport: ClientTransport;
  readonly capabilities: Json;
  /** Every received message, as the SDK's transport read it. */
  readonly received: readonly Message[];
  /** The notifications among them. */
  readonly notifications: readonly { readonly method: string; readonly params: Json }[];
  /** The questions that this client was asked. */
  readonly questions: Question[];
  readonly negotiated: string | undefined;
  readonly serverCapabilities: Json;
  readonly instructions: string | undefined;
  request(method: string, params?: Json, options?: CallOptions): Promise<Json>;
  call(name: string, args?: Json, options?: CallOptions & { readonly meta?: Json }): Promise<Json>;
  notify(method: string, params?: Json): Promise<void>;
  /** Subscribes to a resource in the way of this era; resolves when the subscription is confirmed. */
  subscribe(uri: string): Promise<() => Promise<void>>;
  /** Subscribes to list changes, if the era of the client has such a subscription. */
  watchLists(): Promise<() => Promise<void>>;
  /** Requests logs of this level and above: for the session, or in `_meta` of each later call. */
  setLevel(level: string): Promise<void>;
  close(): Promise<void>;
}

const PACKAGES: Readonly<Record<Exclude<Revision, '2026-07-28'>, string>> = {
  '2024-11-05': 'sdk-2024-11-05',
  '2025-03-26': 'sdk-2025-03-26',
  '2025-06-18': 'sdk-2025-06-18',
  '2025-11-25': '@modelcontextprotocol/sdk',
};

const INFO = { name: 'era-client', version: '1.0.0' };
const CALL_TIMEOUT = 15_000;

/** The common part of the clients of all SDK generations. Their types differ, the calls do not. */
interface SdkClient {
  connect(transport: unknown): Promise<void>;
  close(): Promise<void>;
  request(request: unknown, ...rest: unknown[]): Promise<Json>;
  notification(notification: unknown): Promise<void>;
  setRequestHandler(schemaOrMethod: unknown, handler: (request: { params?: Json; method: string }) => unknown): void;
  getServerCapabilities(): Json | undefined;
  getInstructions?(): string | undefined;
}

interface SdkTransport {
  onmessage?: (message: Message, extra?: unknown) => void;
  terminateSession?(): Promise<void>;
}

type Constructor<T> = new (...args: unknown[]) => T;
type Module = Readonly<Record<string, unknown>>;

export function connectClient(revision: Revision, endpoint: Endpoint, options: ClientOptions = {}): Promise<EraClient> {
  return revision === '2026-07-28' ? connectModern(endpoint, options) : connectLegacy(revision, endpoint, options);
}

/** Records the messages that a transport passes to its client, without changing the client. */
function overhear(transport: SdkTransport): Message[] {
  const received: Message[] = [];
  let inner: SdkTransport['onmessage'];
  const listening = (message: Message, extra?: unknown): void => {
    received.push(message);
    inner?.call(transport, message, extra);
  };
  Object.defineProperty(transport, 'onmessage', {
    get: () => inner && listening,
    set: (handler: SdkTransport['onmessage']) => {
      // A client that passes the transport on sets a handler that wraps this one.
      if (handler !== listening) inner = handler;
    },
  });
  return received;
}

const notificationsIn = (received: readonly Message[]): EraClient['notifications'] =>
  received.flatMap(({ id, method, params = {} }) =>
    method !== undefined && id === undefined ? [{ method, params }] : [],
  );

const stdioParameters = (endpoint: Endpoint, server: string) => ({
  command: process.execPath,
  args: [BIN, 'stdio', '--config', endpoint.config, '--server', server],
  stderr: 'ignore',
});

const serverOf = (endpoint: Endpoint): string => endpoint.url.split('/').at(-1)!;

const QUESTIONS = {
  'sampling/createMessage': 'CreateMessageRequestSchema',
  'roots/list': 'ListRootsRequestSchema',
  'elicitation/create': 'ElicitRequestSchema',
} as const;

const CAPABILITY_OF: Readonly<Record<keyof typeof QUESTIONS, string>> = {
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
  'elicitation/create': 'elicitation',
};

async function connectLegacy(
  revision: Exclude<Revision, '2026-07-28'>,
  endpoint: Endpoint,
  { capabilities = {}, answer, headers = {} }: ClientOptions,
): Promise<EraClient> {
  const load = (path: string): Promise<Module> => import(`${PACKAGES[revision]}/${path}.js`);
  const [{ Client }, types] = await Promise.all([load('client/index'), load('types')]);
  const client = new (Client as Constructor<SdkClient>)(INFO, { capabilities });
  const questions: Question[] = [];
  for (const [method, schema] of Object.entries(QUESTIONS)) {
    if (!answer || !capabilities[CAPABILITY_OF[method as keyof typeof QUESTIONS]]) continue;
    client.setRequestHandler(types[schema], ({ params = {} }) => {
      questions.push({ method, params });
      return answer(method, params);
    });
  }
  const transport = await legacyTransport(load, endpoint, headers);
  const received = overhear(transport);
  await client.connect(transport);
  const { ResultSchema } = types;
  const request: EraClient['request'] = (method, params, { signal, timeout = CALL_TIMEOUT, onprogress } = {}) =>
    client.request({ method, params }, ResultSchema, {
      timeout,
      ...(signal && { signal }),
      ...(onprogress && { onprogress }),
    });
  return {
    revision,
    transport: endpoint.transport,
    capabilities,
    received,
    get notifications() {
      return notificationsIn(received);
    },
    questions,
    negotiated: String(received.find(({ result }) => result?.['protocolVersion'])?.result?.['protocolVersion']),
    serverCapabilities: client.getServerCapabilities() ?? {},
    instructions: client.getInstructions?.(),
    request,
    call: (name, args = {}, { meta, ...options } = {}) =>
      request('tools/call', { name, arguments: args, ...(meta && { _meta: meta }) }, options),
    notify: (method, params) => client.notification({ method, params }),
    subscribe: async (uri) => {
      await request('resources/subscribe', { uri });
      return async () => void (await request('resources/unsubscribe', { uri }));
    },
    watchLists: async () => async () => {},
    setLevel: async (level) => void (await request('logging/setLevel', { level })),
    close: async () => {
      await transport.terminateSession?.().catch(() => {});
      await client.close();
    },
  };
}

async function legacyTransport(
  load: (path: string) => Promise<Module>,
  endpoint: Endpoint,
  headers: Readonly<Record<string, string>>,
): Promise<SdkTransport> {
  switch (endpoint.transport) {
    case 'sse': {
      const { SSEClientTransport } = await load('client/sse');
      return new (SSEClientTransport as Constructor<SdkTransport>)(new URL(`${endpoint.url}/sse`), {
        requestInit: { headers },
      });
    }
    case 'http': {
      const { StreamableHTTPClientTransport } = await load('client/streamableHttp');
      return new (StreamableHTTPClientTransport as Constructor<SdkTransport>)(new URL(endpoint.url), {
        requestInit: { headers },
      });
    }
    case 'stdio': {
      const { StdioClientTransport } = await load('client/stdio');
      return new (StdioClientTransport as Constructor<SdkTransport>)(stdioParameters(endpoint, serverOf(endpoint)));
    }
  }
}

const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';

interface ModernClient extends SdkClient {
  listen(filter: Json): Promise<{ close(): Promise<void>; readonly honored?: Json }>;
  getNegotiatedProtocolVersion(): string | undefined;
}

async function connectModern(
  endpoint: Endpoint,
  { capabilities = {}, answer, headers = {} }: ClientOptions,
): Promise<EraClient> {
  const sdk = (await import('@modelcontextprotocol/client')) as unknown as Module;
  const client = new (sdk['Client'] as Constructor<ModernClient>)(INFO, {
    capabilities,
    versionNegotiation: { mode: { pin: '2026-07-28' } },
  });
  const questions: Question[] = [];
  for (const method of Object.keys(QUESTIONS) as (keyof typeof QUESTIONS)[]) {
    if (!answer || !capabilities[CAPABILITY_OF[method]]) continue;
    client.setRequestHandler(method, ({ params = {} }) => {
      questions.push({ method, params });
      return answer(method, params);
    });
  }
  let transport: SdkTransport;
  if (endpoint.transport === 'stdio') {
    const stdio = (await import('@modelcontextprotocol/client/stdio')) as unknown as Module;
    transport = new (stdio['StdioClientTransport'] as Constructor<SdkTransport>)(
      stdioParameters(endpoint, serverOf(endpoint)),
    );
  } else {
    transport = new (sdk['StreamableHTTPClientTransport'] as Constructor<SdkTransport>)(new URL(endpoint.url), {
      requestInit: { headers },
    });
  }
  const received = overhear(transport);
  await client.connect(transport);
  let level: string | undefined;
  const request: EraClient['request'] = (method, params = {}, options = {}) => {
    const { signal, timeout = CALL_TIMEOUT, onprogress } = options;
    const meta = { ...(params['_meta'] as Json), ...(level !== undefined && { [LOG_LEVEL]: level }) };
    return client.request(
      { method, params: { ...params, ...(Object.keys(meta).length > 0 && { _meta: meta }) } },
      { timeout, ...(signal && { signal }), ...(onprogress && { onprogress }) },
    );
  };
  const listen = async (filter: Json): Promise<() => Promise<void>> => {
    const subscription = await client.listen(filter);
    return () => subscription.close();
  };
  return {
    revision: '2026-07-28',
    transport: endpoint.transport,
    capabilities,
    received,
    get notifications() {
      return notificationsIn(received);
    },
    questions,
    negotiated: client.getNegotiatedProtocolVersion(),
    serverCapabilities: client.getServerCapabilities() ?? {},
    instructions: client.getInstructions?.(),
    request,
    call: (name, args = {}, { meta, ...options } = {}) =>
      request('tools/call', { name, arguments: args, ...(meta && { _meta: meta }) }, options),
    notify: (method, params) => client.notification({ method, params }),
    subscribe: (uri) => listen({ resourceSubscriptions: [uri] }),
    watchLists: () => listen({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }),
    setLevel: async (wanted) => {
      level = wanted;
    },
    close: () => client.close(),
  };
}
