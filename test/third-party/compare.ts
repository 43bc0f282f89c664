/** Compares the lists of a server through the gateway with those without it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { ALL_CAPABILITIES, type Capability } from './clients.js';
import { connectWith, type Lists, listsOf } from './lists.js';
import type { World } from './start.js';

/** Limit on the wait until all servers are up and the lists are complete. */
const PATIENCE = 180_000;

const KEYS = { tools: 'name', resources: 'uri', templates: 'uriTemplate', prompts: 'name' } as const;
export const SEPARATOR = '__';

/** The lists of a server without the gateway. */
export async function directLists(world: World, server: string, declares: readonly Capability[]): Promise<Lists> {
  const client = await connectWith(world.direct.get(server)!, declares);
  try {
    return await listsOf(client);
  } finally {
    await client.close();
  }
}

/** Waits until a client with these capabilities sees `expected` at an endpoint; returns the remaining difference. */
export async function difference(
  url: string,
  declares: readonly Capability[],
  expected: Lists,
  server?: string,
): Promise<string | undefined> {
  const client = await connectWith({ url, transport: 'http' }, declares);
  try {
    const until = Date.now() + PATIENCE;
    for (;;) {
      const lists = await listsOf(client);
      const differs = differenceOf(expected, server === undefined ? lists : ownOf(lists, server, expected));
      if (differs === undefined || Date.now() > until) return differs;
      await sleep(500);
    }
  } finally {
    await client.close();
  }
}

/** The part of one server in the lists of all, with its own names. Resources have no prefix and are matched by URI. */
function ownOf(lists: Lists, server: string, expected: Lists): Lists {
  const prefix = `${server}${SEPARATOR}`;
  const unprefixed = <T extends { readonly name: string }>(items: readonly T[]): T[] =>
    items
      .filter(({ name }) => name.startsWith(prefix))
      .map((item) => ({ ...item, name: item.name.slice(prefix.length) }));
  const uris = new Set(expected.resources.map(({ uri }) => uri));
  const templates = new Set(expected.templates.map(({ uriTemplate }) => uriTemplate));
  return {
    tools: unprefixed(lists.tools),
    prompts: unprefixed(lists.prompts),
    resources: lists.resources.filter(({ uri }) => uris.has(uri)),
    templates: lists.templates.filter(({ uriTemplate }) => templates.has(uriTemplate)),
  };
}

function differenceOf(expected: Lists, found: Lists): string | undefined {
  for (const list of ['tools', 'resources', 'templates', 'prompts'] as const) {
    const key = (item: object): string => (item as Record<string, string>)[KEYS[list]]!;
    const [wanted, seen] = [expected[list].map(key), found[list].map(key)];
    const missing = wanted.filter((name) => !seen.includes(name));
    const extra = seen.filter((name) => !wanted.includes(name));
    if (missing.length > 0) return `${list}: the gateway does not show ${missing.join(', ')}`;
    if (extra.length > 0) return `${list}: only the gateway shows ${extra.join(', ')}`;
    if (!isDeepStrictEqual(wanted, seen)) return `${list}: in another order: ${seen.join(', ')}`;
    for (const [index, item] of expected[list].entries()) {
      const other = found[list][index]!;
      if (!isDeepStrictEqual(item, other))
        return `${list}: ${key(item)} is ${JSON.stringify(other)} instead of ${JSON.stringify(item)}`;
    }
  }
  return undefined;
}

/** Calls a tool that sends a question to the client; returns the text of the result. */
export async function askingCall(
  place: Parameters<typeof connectWith>[0],
  name: string,
  args: Record<string, unknown>,
): Promise<string> {
  const client = await connectWith(place, ALL_CAPABILITIES);
  try {
    const result = await client.callTool({ name, arguments: args }, undefined, { timeout: PATIENCE });
    return JSON.stringify(result.content);
  } finally {
    await client.close();
  }
}
