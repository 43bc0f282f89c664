/** The snippets for a gateway with tokens, with a real token instead of the placeholder. */
import type { Client } from './clients.js';
import { connectWith } from './lists.js';
import { runClient } from './run-client.js';
import type { Score } from './score.js';
import { SERVERS } from './servers.js';
import { openWorld } from './start.js';

const TOKEN = 'ferry-timetable-of-ada-0123456789-abcdef';
const SERVER = 'hello';

export async function withToken(clients: readonly Client[], score: Score): Promise<void> {
  const servers = SERVERS.filter(({ name }) => name === SERVER);
  const world = await openWorld(servers, { auth: { tokens: [{ name: 'ada', token: TOKEN }] }, log: { level: 'warn' } });
  const url = `${world.gateway.url}/mcp`;
  try {
    await score.test('a gateway with tokens refuses a client without one', async () => {
      const refused = await connectWith({ url, transport: 'http' }, []).then(
        (client) => client.close().then(() => undefined),
        (error: Error) => error.message,
      );
      return refused === undefined ? { problem: 'it was let in' } : { note: refused.slice(0, 120) };
    });
    for (const client of clients.filter(({ snippet }) => snippet !== undefined)) {
      await score.test(`${client.name} with a token`, async () => {
        const { tools } = await runClient(client, { url, token: TOKEN }, []);
        const own = tools?.filter((name) => name.startsWith(`${SERVER}__`));
        if (own && own.length !== servers[0]!.tools) return { problem: `it sees ${own.join(', ')}` };
        return { note: own ? `${own.length} tools` : 'connects' };
      });
    }
  } finally {
    await world.close();
  }
}
