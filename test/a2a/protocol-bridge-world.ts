/** Agents of every version behind a gateway, and the MCP clients that use them as tools. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ModernClient } from '../era-bridge/support/clients.js';
import type { Message } from '../era-bridge/support/wire.js';
import { connectClient, type EraClient, type Json, type Revision } from '../eras/peers.js';
import { closeHttp, type RunningAgent } from '../fixtures/a2a/agent.js';
import { COLUMNS, startAgent } from '../fixtures/a2a/agents.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { ADA, BOB } from './testbed.js';

const VERSIONS = {
  one: 'one-rpc',
  plain: 'one-plain',
  three: 'three-rpc',
  two: 'two-rpc',
  first: 'first-rpc',
} as const;
export type AgentName = keyof typeof VERSIONS;
export const NAMES = Object.keys(VERSIONS) as AgentName[];

export let agents: Readonly<Record<AgentName, RunningAgent>>;
export let changing: ChangingCard;
export let gateway: RunningGateway;

/** The card of an agent whose skills change during the test. */
interface ChangingCard {
  readonly url: string;
  skills: Json[];
  readonly server: Server;
}

async function startChanging(of: RunningAgent): Promise<ChangingCard> {
  const card = (await (await fetch(`${of.url}/.well-known/agent-card.json`)).json()) as Json & { skills: Json[] };
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'max-age=1' });
    response.end(JSON.stringify({ ...card, skills: changing.skills }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, skills: card.skills, server };
}

/** Starts agents of every version, and a gateway in front of them. */
export async function openWorld(): Promise<void> {
  const started = await Promise.all(
    NAMES.map(async (name) => [name, await startAgent(COLUMNS.find((one) => one.name === VERSIONS[name])!)] as const),
  );
  agents = Object.fromEntries(started) as typeof agents;
  changing = await startChanging(agents.one);
  gateway = await startGateway({
    agents: {
      ...Object.fromEntries(started.map(([name, { url }]) => [name, { url }])),
      changing: { url: changing.url },
      careful: { url: agents.one.url },
      hidden: { url: agents.one.url, mcp: false },
      hasty: { url: agents.one.url, timeouts: { callMax: '400ms' } },
      gone: { url: 'http://127.0.0.1:9' },
    },
    egress: { allowPrivate: true },
    policy: { approve: { tools: ['careful__*'] } },
    auth: {
      tokens: [
        { name: 'ada', token: ADA },
        { name: 'bob', token: BOB },
      ],
    },
    log: { level: 'warn' },
  });
}

export async function closeWorld(): Promise<void> {
  await gateway?.close();
  await Promise.all(Object.values(agents ?? {}).map((agent) => agent.close()));
  if (changing) await closeHttp(changing.server);
}

export const modern = (capabilities: Json = {}, token = ADA, path = '/mcp'): ModernClient =>
  new ModernClient(`${gateway.url}${path}`, capabilities, token);

interface Connecting {
  readonly capabilities?: Json;
  readonly answer?: (params: Json) => Json;
  readonly path?: string;
}

export async function withClient<T>(
  revision: Revision,
  { capabilities = {}, answer, path = '/mcp' }: Connecting,
  use: (client: EraClient) => Promise<T>,
): Promise<T> {
  const client = await connectClient(
    revision,
    { transport: 'http', url: `${gateway.url}${path}`, config: '' },
    {
      capabilities,
      ...(answer && { answer: (_: string, params: Json) => answer(params) }),
      headers: { authorization: `Bearer ${ADA}` },
    },
  );
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

export interface Tool extends Json {
  readonly name: string;
}
export const toolsOf = (answer: Message): Tool[] => answer.result.tools as Tool[];
export const contentOf = (answer: Json): Json[] => answer['content'] as Json[];
export const structuredOf = (answer: Json): Json => answer['structuredContent'] as Json;
export const stateOf = (answer: Json): unknown => structuredOf(answer)['state'];

/** Sends an A2A request to an agent of the gateway. */
async function ask(agent: string, method: string, params: Json): Promise<Json | undefined> {
  const response = await fetch(`${gateway.url}/a2a/${agent}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0', authorization: `Bearer ${ADA}` },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  return ((await response.json()) as { result?: Json }).result;
}

export async function stateAt(agent: string, id: unknown): Promise<string> {
  const task = (await ask(agent, 'GetTask', { id })) as { status: { state: string } } | undefined;
  return task?.status.state ?? 'unknown';
}

export async function taskIds(agent: string): Promise<string[]> {
  const { tasks } = (await ask(agent, 'ListTasks', { pageSize: 100 })) as unknown as { tasks: { id: string }[] };
  return tasks.map(({ id }) => id);
}
