/** Calls of tools by a client that can be asked, and the questions that came back. */
import { TASKS_EXTENSION } from '../../protocol/mcp/model.js';
import { asObject, isObject, type Json } from '../json.js';
import type { Reply } from '../wire/reply.js';
import { isRequest, isResponse } from './observed.js';
import { META, type Peer } from './peer.js';
import type { McpSurface } from './surface.js';

/** A question of the server: a request, or an entry of `inputRequests`. */
export interface Question {
  readonly method: string;
  readonly params: Json;
  readonly reply: Reply;
}

export interface Interaction {
  readonly tool: Json;
  readonly reply: Reply;
  readonly questions: readonly Question[];
}

export interface Interactions {
  readonly calls: readonly Interaction[];
  readonly questions: readonly Question[];
  /** The connection of the calls; closed. */
  readonly log: readonly Reply[];
}

const MAX_CALLS = 5;

/** Roots, sampling without tools and context, forms without URLs, and the extension for tasks. */
export function askableCapabilities({ peer }: McpSurface): Json {
  const { elicitation } = peer.revision.expresses;
  const modes = elicitation.includes('url') ? { form: {} } : {};
  return {
    roots: {},
    sampling: {},
    ...(elicitation.length > 0 && { elicitation: modes }),
    extensions: { [TASKS_EXTENSION]: {} },
  };
}

/** The answer of a user who declines. */
export function declined(method: string): Json {
  if (method === 'elicitation/create') return { result: { action: 'decline' } };
  if (method === 'roots/list') return { result: { roots: [] } };
  return { error: { code: -1, message: 'User rejected sampling request' } };
}

/** Calls a tool of the legacy era, and declines each question of the server. */
async function answeredCall(peer: Peer, tool: Json): Promise<Reply> {
  const answered = new Set<unknown>();
  return peer.call(
    'tools/call',
    { name: tool['name'], arguments: {} },
    {
      enough: (messages) => {
        for (const message of messages.filter(isObject)) {
          if (!isRequest(message) || answered.has(message['id'])) continue;
          answered.add(message['id']);
          const response = { jsonrpc: '2.0', id: message['id'], ...declined(String(message['method'])) };
          peer.aside(response).catch(() => {});
        }
        return messages.some((each) => isObject(each) && isResponse(each));
      },
    },
  );
}

function questionsOf(reply: Reply): Question[] {
  const inBody = Object.values(asObject(reply.result?.['inputRequests'])).filter(isObject);
  const sent = reply.messages.filter(isObject).filter(isRequest);
  return [...inBody, ...sent].map((each) => ({
    method: String(each['method']),
    params: asObject(each['params']),
    reply,
  }));
}

/** Calls tools without required arguments on a connection of its own, with capabilities that allow questions. */
export const interactions = (surface: McpSurface): Promise<Interactions> =>
  surface.once('interactions', () => interactionsWith(surface, askableCapabilities(surface)));

/** The same with a client that also opens URLs for its user. */
export const urlInteractions = (surface: McpSurface): Promise<Interactions> =>
  surface.once('interactions with URLs', () =>
    interactionsWith(surface, { ...askableCapabilities(surface), elicitation: { form: {}, url: {} } }),
  );

async function interactionsWith(surface: McpSurface, capabilities: Json): Promise<Interactions> {
  const tools = (await surface.freeTools()).slice(0, MAX_CALLS);
  if (tools.length === 0) return { calls: [], questions: [], log: [] };
  const peer = await surface.options.fresh({ capabilities });
  const calls: Interaction[] = [];
  for (const tool of tools) {
    const reply = surface.modern
      ? await peer.call(
          'tools/call',
          { name: tool['name'], arguments: {} },
          { meta: { [META.capabilities]: capabilities } },
        )
      : await answeredCall(peer, tool);
    calls.push({ tool, reply, questions: questionsOf(reply) });
  }
  await peer.close();
  return { calls, questions: calls.flatMap(({ questions }) => questions), log: peer.log };
}
