/** A server whose tools depend on the capabilities of its client, over each of its transports. */
import { ALL_CAPABILITIES, type Capability, NO_CAPABILITIES } from './clients.js';
import { askingCall, difference, directLists, SEPARATOR } from './compare.js';
import type { Score } from './score.js';
import type { Server } from './servers.js';
import { openWorld } from './start.js';

/** Every set of capabilities that changes the list, and the length of that list. */
const SETS: readonly (readonly [readonly Capability[], number])[] = [
  [NO_CAPABILITIES, 13],
  [['roots'], 14],
  [['sampling'], 14],
  [['elicitation'], 14],
  [['elicitation', 'url'], 15],
  [ALL_CAPABILITIES, 17],
];

/** Tools that ask the client; their results contain its answer. */
const ASKING = ['get-roots-list', 'trigger-sampling-request', 'trigger-elicitation-request'];
const ARGUMENTS: Readonly<Record<string, Record<string, unknown>>> = {
  'trigger-sampling-request': { prompt: 'When does the ferry leave?', maxTokens: 20 },
};

export async function capabilities(servers: readonly Server[], score: Score): Promise<void> {
  const world = await openWorld(servers, { log: { level: 'warn' } });
  const root = `${world.gateway.url}/mcp`;
  try {
    for (const { name } of servers) {
      for (const [declares, length] of SETS) {
        const title = declares.length === 0 ? 'no capabilities' : declares.join(', ');
        await score.test(`${name}: a client with ${title} sees the same with and without the gateway`, async () => {
          const lists = await directLists(world, name, declares);
          if (lists.tools.length !== length)
            return { problem: `the server itself has ${lists.tools.length} tools, and should have ${length}` };
          const problem =
            (await difference(`${root}/${name}`, declares, lists)) ??
            // The resources of the three servers have the same URIs.
            (await difference(root, declares, { ...lists, resources: [], templates: [] }, name));
          return { problem, note: `${length} tools` };
        });
      }
      for (const tool of ASKING) {
        await score.test(`${name}: ${tool} asks the client through the gateway as it does without`, async () => {
          const args = ARGUMENTS[tool] ?? {};
          const direct = await askingCall(world.direct.get(name)!, tool, args);
          const own = await askingCall({ url: `${root}/${name}`, transport: 'http' }, tool, args);
          if (own !== direct) return { problem: `at /mcp/${name}: ${own} instead of ${direct}` };
          const all = await askingCall({ url: root, transport: 'http' }, `${name}${SEPARATOR}${tool}`, args);
          return { problem: all === direct ? undefined : `at /mcp: ${all} instead of ${direct}` };
        });
      }
    }
  } finally {
    await world.close();
  }
}
