/** What the quickstart has beside its configuration: the examples that are reached over HTTP, and what was found. */
import { fileURLToPath } from 'node:url';
import type { Offer } from './cli/quickstart.js';
import type { Catalog } from './core/catalog/catalog.js';
import { ALL_SERVERS } from './core/gateway.js';
import { Child } from './outbound/stdio/process.js';
import { atMost } from './state/clock.js';

export type { Offer } from './cli/quickstart.js';

/** The tools of every server, under the names callers see. Waits for servers that are still starting. */
export async function offerOf(catalog: Catalog): Promise<Offer> {
  await atMost(START_MS, catalog.warm());
  const { parts, missing } = await catalog.parts(ALL_SERVERS, 'tools/list');
  const clashes = catalog.clashes(parts);
  const servers = parts.map(({ server: name, snapshot }) => ({
    name,
    tools: snapshot.items.map(({ key }) => catalog.exposedName(ALL_SERVERS, name, key, clashes)),
  }));
  return { servers, missing };
}

/** Servers that say on their first line of output where they listen, and the variable that carries it into the configuration. */
const EXAMPLES = [{ variable: 'EXAMPLE_CLOCK_URL', file: 'clock.mjs' }] as const;

const START_MS = 10_000;
const MAX_LINE = 4096;

export interface Examples {
  /** Variables for the configuration. */
  readonly env: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** They are guarded like every other child: none outlives the gateway. */
export async function startExamples(): Promise<Examples> {
  const children: Child[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(children.map((child) => child.stop()));
  };
  try {
    const started = EXAMPLES.map(
      async ({ variable, file }): Promise<[string, string]> => [variable, await startExample(file, children)],
    );
    return { env: Object.fromEntries(await Promise.all(started)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function startExample(name: string, children: Child[]): Promise<string> {
  const file = fileURLToPath(new URL(`../examples/${name}`, import.meta.url));
  return new Promise((resolve, reject) => {
    const child = Child.start(
      { command: process.execPath, args: [file] },
      {
        message: (line) => {
          const { url } = JSON.parse(line.toString()) as { url?: unknown };
          if (typeof url === 'string') resolve(url);
        },
        exit: () => reject(new Error(`the example ${file} ended at once: ${child.stderrTail.trim()}`)),
      },
      { maxLine: MAX_LINE, grace: { eofMs: 100, termMs: 2000 } },
    );
    children.push(child);
    setTimeout(() => reject(new Error(`the example ${file} did not start`)), START_MS).unref();
  });
}
