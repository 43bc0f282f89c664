/** One gateway with an agent of every column behind it, and helpers for the cases. */
import { createServer } from 'node:net';
import type { Column, RunningAgent } from '../fixtures/a2a/agent.js';
import { startAgent } from '../fixtures/a2a/agents.js';
import type { Client, Row } from '../fixtures/a2a/client.js';
import { connectClient } from '../fixtures/a2a/clients.js';
import { startWebhook, type Webhook } from '../fixtures/a2a/webhook.js';
import { type GatewayOptions, type RunningGateway, startGateway } from '../support/gateway.js';

export const ADA = 'token-of-ada-0123456789';
export const BOB = 'token-of-bob-0123456789';
/** The credential that the gateway is configured to send to every agent. */
export const AGENT_KEY = 'key-for-the-agent';
/** A configured agent that does not run. */
export const DOWN = 'gone';
/** An agent that requires its extension. */
export const STRICT: Column = {
  name: 'strict',
  version: '1.0',
  binding: 'jsonrpc',
  streaming: true,
  push: false,
  requires: true,
};

export interface Testbed {
  readonly gateway: RunningGateway;
  readonly agents: readonly RunningAgent[];
  readonly webhook: Webhook;
  agent(column: Column): RunningAgent;
  base(name: string): string;
  connect(row: Row, name: string, options?: ConnectOptions): Promise<Client>;
  /** Stops the gateway and starts it again at the same address. Needs a persistent data folder. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export interface ConnectOptions {
  readonly token?: string | undefined;
  readonly extensions?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
}

export async function openTestbed(
  columns: readonly Column[],
  { agents: others, ...settings }: Readonly<Record<string, unknown>> = {},
  options: GatewayOptions = {},
): Promise<Testbed> {
  const webhook = await startWebhook();
  const agents = await Promise.all([...columns, STRICT].map(startAgent));
  const entry = (url: string): object => ({ url, headers: { 'x-fixture-key': AGENT_KEY } });
  const config = {
    agents: {
      ...Object.fromEntries(agents.map(({ column, url }) => [column.name, entry(url)])),
      [DOWN]: entry(`http://127.0.0.1:${await unusedPort()}`),
      ...(others as object | undefined),
    },
    grpc: { listen: '127.0.0.1:0' },
    egress: { allowPrivate: true },
    auth: {
      tokens: [
        { name: 'ada', token: ADA },
        { name: 'bob', token: BOB },
      ],
    },
    log: { level: 'warn' },
    ...settings,
  };
  const leave = (): Promise<unknown> => Promise.all([...agents.map((agent) => agent.close()), webhook.close()]);
  let gateway = await startGateway(config, options).catch(async (error: unknown) => {
    await leave();
    throw error;
  });
  const base = (name: string): string => `${gateway.url}/a2a/${name}`;
  return {
    get gateway() {
      return gateway;
    },
    restart: async () => {
      const { port } = new URL(gateway.url);
      await gateway.close();
      gateway = await startGateway({ ...config, listen: `127.0.0.1:${port}` }, options);
    },
    agents,
    webhook,
    base,
    agent: (column) => agents.find((one) => one.column.name === column.name)!,
    connect: (row, name, { token = ADA, extensions, headers } = {}) =>
      connectClient(row, {
        // gRPC of 0.3 has no tenant, so only the card of the routing agent has its address.
        url: row.version === '0.3' && row.binding === 'grpc' ? `${gateway.url}/a2a` : base(name),
        headers: {
          ...(token !== '' && { authorization: `Bearer ${token}` }),
          ...(row.binding === 'grpc' && { 'x-parley-agent': name }),
          ...headers,
        },
        ...(extensions && { extensions }),
      }),
    close: async () => {
      await gateway.close();
      await leave();
    },
  };
}

/** A port on which no process listens. */
async function unusedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
