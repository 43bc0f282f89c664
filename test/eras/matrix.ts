/** Runs the cases of a cell: one client revision against one server, through a running gateway. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { ACCEPT, type Case, type Cell, checkRefused, PAGE_SIZE, type Verdict } from './cases.js';
import {
  type ClientTransport,
  connectClient,
  type Endpoint,
  type FixtureServer,
  type Json,
  type Revision,
  rankOf,
  type ServerTransport,
  startServer,
} from './peers.js';

export interface Outcome {
  readonly case: string;
  readonly verdict: Exclude<Verdict, 'absent'>;
  /** The cause of a failure. */
  readonly problem?: string;
}

export interface Testbed {
  readonly gateway: RunningGateway;
  readonly servers: readonly FixtureServer[];
  server(revision: Revision, transport: ServerTransport): FixtureServer;
  endpoint(server: FixtureServer, transport: ClientTransport): Promise<Endpoint>;
  close(): Promise<void>;
}

/** The gateway with every server behind it. */
export async function openTestbed(
  wanted: readonly (readonly [Revision, ServerTransport])[],
  settings: Json = {},
): Promise<Testbed> {
  const servers = await Promise.all(wanted.map(([revision, transport]) => startServer(revision, transport)));
  const common = { limits: { pageSize: PAGE_SIZE }, log: { level: 'warn' }, ...settings };
  const gateway = await startGateway({
    ...common,
    servers: Object.fromEntries(servers.map(({ name, settings: entry }) => [name, entry])),
  });
  const folder = await mkdtemp(join(tmpdir(), 'parley-eras-'));
  return {
    gateway,
    servers,
    server: (revision, transport) => {
      const found = servers.find((server) => server.revision === revision && server.transport === transport);
      if (!found) throw new Error(`no server of ${revision} over ${transport} was started`);
      return found;
    },
    endpoint: async (server, transport) => {
      const config = join(folder, `${server.name}.json`);
      const data = join(folder, `data-${server.name}`);
      await writeFile(config, JSON.stringify({ ...common, data, servers: { [server.name]: server.settings } }), {
        mode: 0o600,
      });
      return { transport, config, url: `${gateway.url}/mcp/${server.name}` };
    },
    close: async () => {
      await gateway.close();
      await Promise.all(servers.map((server) => server.close()));
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

/** All capabilities of a client of this revision. */
export function capabilitiesOf(revision: Revision): Json {
  const rank = rankOf(revision);
  return {
    roots: rank < 4 ? { listChanged: true } : {},
    sampling: rank >= 3 ? { tools: {} } : {},
    ...(rank === 2 && { elicitation: {} }),
    ...(rank >= 3 && { elicitation: { form: {}, url: {} } }),
  };
}

export async function runCell(
  testbed: Testbed,
  revision: Revision,
  transport: ClientTransport,
  server: FixtureServer,
  cases: readonly Case[],
): Promise<Outcome[]> {
  const [c, s] = [rankOf(revision), rankOf(server.revision)];
  const trying = cases
    .map((one) => ({ one, verdict: one.verdict(c, s, server.transport) }))
    .filter((pair): pair is { one: Case; verdict: 'crosses' | 'refused' } => pair.verdict !== 'absent');
  const endpoint = await testbed.endpoint(server, transport);
  const clients: { close(): Promise<void> }[] = [];
  try {
    const client = await connectClient(revision, endpoint);
    clients.push(client);
    const asked = await connectClient(revision, endpoint, {
      capabilities: capabilitiesOf(revision),
      answer: (method, params) => cell.answer(method, params),
    });
    clients.push(asked);
    const cell: Cell = { c, s, server, client, asked, answer: ACCEPT };
    const outcomes: Outcome[] = [];
    for (const { one, verdict } of trying) {
      const problem = await problemOf(verdict === 'crosses' ? one.run(cell) : checkRefused(one, cell));
      outcomes.push({ case: one.name, verdict, ...(problem !== undefined && { problem }) });
    }
    return outcomes;
  } catch (error) {
    const problem = `no connection: ${(error as Error).message}`;
    return trying.map(({ one, verdict }) => ({ case: one.name, verdict, problem }));
  } finally {
    await Promise.all(clients.map((one) => one.close().catch(() => {})));
  }
}

async function problemOf(run: Promise<void>): Promise<string | undefined> {
  try {
    await run;
    return undefined;
  } catch (error) {
    return (error as Error).message.split('\n').slice(0, 12).join(' ').slice(0, 400) || String(error);
  }
}
