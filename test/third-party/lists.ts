/** The lists that a client sees, with and without the gateway. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ErrorCode,
  ListRootsRequestSchema,
  McpError,
} from '@modelcontextprotocol/sdk/types.js';
import type { Capability } from './clients.js';
import type { Place } from './start.js';

export interface Lists {
  readonly tools: readonly Named[];
  readonly resources: readonly { readonly uri: string }[];
  readonly templates: readonly { readonly uriTemplate: string }[];
  readonly prompts: readonly Named[];
}

interface Named {
  readonly name: string;
}

const TIME = 180_000;

export function transportOf(place: Place): Transport {
  if ('command' in place) {
    const { command, args, env, cwd } = place;
    const inherited = { ...(process.env as Record<string, string>), ...env };
    return new StdioClientTransport({ command, args: [...args], env: inherited, cwd, stderr: 'ignore' });
  }
  const url = new URL(place.url);
  return place.transport === 'sse' ? new SSEClientTransport(url) : new StreamableHTTPClientTransport(url);
}

export const ROOT = 'file:///third-party/ferries';
export const ELICITED = 'Ada of the ferries';
export const SAMPLED = 'A sampled timetable';

/** A client of the official SDK with these capabilities; it answers every question. */
export async function connectWith(place: Place, declares: readonly Capability[]): Promise<Client> {
  const has = (capability: Capability): boolean => declares.includes(capability);
  const client = new Client(
    { name: 'third-party-test', version: '1.0.0' },
    {
      capabilities: {
        ...(has('elicitation') && { elicitation: { form: {}, ...(has('url') && { url: {} }) } }),
        ...(has('sampling') && { sampling: {} }),
        ...(has('roots') && { roots: { listChanged: true } }),
      },
    },
  );
  if (has('elicitation'))
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { name: ELICITED } }));
  if (has('sampling'))
    client.setRequestHandler(CreateMessageRequestSchema, () => ({
      role: 'assistant',
      model: 'none',
      content: { type: 'text', text: SAMPLED },
    }));
  if (has('roots'))
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: ROOT, name: 'ferries' }] }));
  await client.connect(transportOf(place), { timeout: TIME });
  return client;
}

/** All pages of every list of a server; empty if the server has no such list. */
export async function listsOf(client: Client): Promise<Lists> {
  const { tools, resources, prompts } = client.getServerCapabilities() ?? {};
  const options = { timeout: TIME };
  return {
    tools: tools ? await pages(async (cursor) => part(await client.listTools(cursor, options), 'tools')) : [],
    resources: resources
      ? await pages(async (cursor) => part(await client.listResources(cursor, options), 'resources'))
      : [],
    templates: resources
      ? await pages(async (cursor) =>
          part(await client.listResourceTemplates(cursor, options).catch(withoutTemplates), 'resourceTemplates'),
        )
      : [],
    prompts: prompts ? await pages(async (cursor) => part(await client.listPrompts(cursor, options), 'prompts')) : [],
  };
}

/** A server may have resources and no templates; only the request for templates shows it. */
function withoutTemplates(error: unknown): { resourceTemplates: { uriTemplate: string; name: string }[] } {
  if (error instanceof McpError && error.code === ErrorCode.MethodNotFound) return { resourceTemplates: [] };
  throw error;
}

interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | undefined;
}

function part<K extends string, T>(page: { nextCursor?: string | undefined } & Record<K, T[]>, key: K): Page<T> {
  return { items: page[key], next: page.nextCursor };
}

async function pages<T>(ask: (cursor: { cursor: string } | undefined) => Promise<Page<T>>): Promise<T[]> {
  const all: T[] = [];
  let cursor: { cursor: string } | undefined;
  do {
    const { items, next } = await ask(cursor);
    all.push(...items);
    cursor = next === undefined ? undefined : { cursor: next };
  } while (cursor !== undefined);
  return all;
}
