/**
 * Servers of other authors behind one gateway, used by clients of other authors.
 *
 *   node --import ./test/support/ts.mjs test/third-party/run.ts [--server name] [--client name] [--part
 * servers|clients|token|capabilities|a2a|litellm]
 *
 * Packages are installed once, into $PARLEY_THIRD_PARTY_CACHE or ~/.cache/parley-third-party. `--freeze` writes
 * constraints.txt, the versions of everything Python packages depend on. The last line is `N passed, M failed`.
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { agents } from './agents.js';
import { capabilities } from './capabilities.js';
import { ADK, ALL_CAPABILITIES, CLIENTS, type Client, NO_CAPABILITIES } from './clients.js';
import { difference, directLists, SEPARATOR } from './compare.js';
import type { Lists } from './lists.js';
import { LITELLM, litellm } from './litellm.js';
import { CACHE, frozen, install, label, type Package } from './packages.js';
import { type Job, type Report, runClient } from './run-client.js';
import { Score } from './score.js';
import { CAPABILITY_DEPENDENT, SERVERS, type Server } from './servers.js';
import { shapes } from './shapes.js';
import { openWorld, type World } from './start.js';
import { withToken } from './token.js';

const { values } = parseArgs({
  options: {
    server: { type: 'string', multiple: true },
    client: { type: 'string', multiple: true },
    part: { type: 'string', multiple: true },
    freeze: { type: 'boolean', default: false },
  },
});
const chosen = (wanted: readonly string[] | undefined, name: string): boolean =>
  wanted === undefined || wanted.some((part) => name.toLowerCase().includes(part.toLowerCase()));
const part = (name: string): boolean => values.part === undefined || values.part.includes(name);

const score = new Score();
const servers = SERVERS.filter(({ name }) => chosen(values.server, name));
const clients = CLIENTS.filter(({ name }) => chosen(values.client, name));

/** Installs all packages first; things with a package that fails to install are left out and count as failed. */
async function installed<T>(things: readonly T[], packages: (thing: T) => readonly Package[]): Promise<T[]> {
  const there: T[] = [];
  for (const thing of things) {
    try {
      for (const each of packages(thing))
        if ((await install(each)) === 'installed') console.log(`installed ${label(each)}`);
      there.push(thing);
    } catch (error) {
      score.fail(`${packages(thing).map(label).join(', ')} does not install`, (error as Error).message);
    }
  }
  return there;
}

console.log(`packages are in ${CACHE}`);
const packagesOf = (server: Server): Package[] => [server.package, ...(server.wraps ? [server.wraps.package] : [])];
const thereServers = await installed(servers, packagesOf);
const thereClients = await installed(clients, (client) => [client.package]);
const thereAdk = part('a2a') ? await installed([ADK], (adk) => [adk]) : [];
const thereLiteLlm = part('litellm') ? await installed([LITELLM], (proxy) => [proxy]) : [];
const thereDependent = part('capabilities') ? await installed(CAPABILITY_DEPENDENT, packagesOf) : [];

if (values.freeze) await freeze();
else {
  if (part('servers') || part('clients')) await attempt('servers and clients', main);
  if (thereDependent.length > 0) await attempt('capabilities', () => capabilities(thereDependent, score));
  if (thereAdk.length > 0) await attempt('A2A', () => agents(score));
  if (thereLiteLlm.length > 0) await attempt('LiteLLM', () => litellm(score));
  if (part('clients')) shapes(score);
  if (part('token')) await attempt('token', () => withToken(thereClients, score));
}
score.conclude();

/** A part that throws counts as failed; the other parts continue. */
async function attempt(what: string, body: () => Promise<void>): Promise<void> {
  try {
    await body();
  } catch (error) {
    score.fail(what, (error as Error).message);
  }
}

async function main(): Promise<void> {
  const world = await openWorld(thereServers, { log: { level: 'warn' } });
  try {
    const known = new Map<string, Lists>();
    for (const server of thereServers) await compare(world, server, known);
    if (part('clients')) for (const client of thereClients) await use(world, client, known);
    await score.test('the gateway logged no error', async () => ({ problem: errorsIn(world.gateway.log()) }));
  } finally {
    await world.close();
  }
}

/** The lines of a log at level error or above. */
function errorsIn(log: string): string | undefined {
  const lines = log.split('\n').filter((line) => /"level":[56]0\b/.test(line));
  return lines.length === 0 ? undefined : lines.join('\n');
}

/** Each server has the same lists at `/mcp/<server>` and at `/mcp` as without the gateway. */
async function compare(world: World, server: Server, known: Map<string, Lists>): Promise<void> {
  const { name } = server;
  const root = `${world.gateway.url}/mcp`;
  for (const [title, declares] of [
    ['without capabilities', NO_CAPABILITIES],
    ['with all capabilities', ALL_CAPABILITIES],
  ] as const) {
    await score.test(`${name}: a client ${title} sees the same with and without the gateway`, async () => {
      const lists = await directLists(world, name, declares);
      if (declares.length === 0) {
        known.set(name, lists);
        if (lists.tools.length !== server.tools)
          return { problem: `the server itself has ${lists.tools.length} tools, and should have ${server.tools}` };
      }
      const problem =
        (await difference(`${root}/${name}`, declares, lists)) ?? (await difference(root, declares, lists, name));
      const { tools, resources, templates, prompts } = lists;
      const counts = `${tools.length} tools, ${resources.length} + ${templates.length} resources, ${prompts.length} prompts`;
      return { problem, note: counts };
    });
  }
}

/** Prints one line per server that the client uses. */
async function use(world: World, client: Client, known: ReadonlyMap<string, Lists>): Promise<void> {
  const url = `${world.gateway.url}/mcp`;
  const jobs = jobsOf(world, client);
  let report: Report;
  try {
    // Wait until the lists for these capabilities are complete, because the client reads them only once.
    for (const server of thereServers.filter(({ byCapabilities }) => byCapabilities))
      await difference(url, client.declares, await directLists(world, server.name, client.declares), server.name);
    report = await runClient(client, { url }, [...jobs.values()].flat());
  } catch (error) {
    score.fail(`${client.name}`, (error as Error).message);
    return;
  }
  if (!report.tools) {
    score.pass(`${client.name} connects`);
    return;
  }
  for (const server of thereServers) {
    await score.test(`${server.name} × ${client.name}`, async () => {
      const lists = server.byCapabilities
        ? await directLists(world, server.name, client.declares)
        : known.get(server.name)!;
      const prefix = `${server.name}${SEPARATOR}`;
      const seen = report.tools!.filter((name) => name.startsWith(prefix)).sort();
      const wanted = lists.tools.map(({ name }) => prefix + name).sort();
      const missing = wanted.filter((name) => !seen.includes(name));
      if (missing.length > 0) return { problem: `it does not see ${missing.join(', ')}` };
      const extra = seen.filter((name) => !wanted.includes(name));
      if (extra.length > 0) return { problem: `it should not see ${extra.join(', ')}` };
      const done = jobs.get(server.name)!;
      for (const job of done) {
        const answer = report.answers.get(job.id);
        const what = `${job.kind} ${job.kind === 'read' ? job.uri : job.name}`;
        if (answer?.text === undefined) return { problem: `${what}: ${answer?.error ?? 'no answer'}` };
        if (!answer.text.includes(job.answer))
          return { problem: `${what}: "${answer.text.slice(0, 500)}" does not contain "${job.answer}"` };
      }
      return { note: [`${seen.length} tools`, ...done.map(({ kind }) => kind)].join(', ') };
    });
  }
}

/** The examples of each server that this client can do, under the names of the whole gateway. */
function jobsOf(world: World, client: Client): Map<string, Job[]> {
  let id = 0;
  return new Map(
    thereServers.map((server) => [
      server.name,
      server
        .examples(world.workplace)
        .filter(
          ({ kind, needs = [] }) => client.can.includes(kind) && needs.every((each) => client.declares.includes(each)),
        )
        .map((example) => ({
          ...example,
          name: example.kind === 'read' ? example.name : `${server.name}${SEPARATOR}${example.name}`,
          id: ++id,
        })),
    ]),
  );
}

/** The versions that all Python packages share; a dependency with different versions is left out. */
async function freeze(): Promise<void> {
  const versions = new Map<string, Set<string>>();
  const python = [...thereServers.flatMap(packagesOf), ...thereClients.map((client) => client.package)];
  for (const each of python.filter(({ registry }) => registry === 'pypi')) {
    for (const line of await frozen(each)) {
      const [name, version] = line.split('==') as [string, string];
      versions.set(name, (versions.get(name) ?? new Set()).add(version));
    }
  }
  const lines = [...versions].filter(([, { size }]) => size === 1).map(([name, [version]]) => `${name}==${version}`);
  await writeFile(new URL('constraints.txt', import.meta.url), `${lines.sort().join('\n')}\n`);
  console.log(`wrote ${lines.length} versions`);
}
