/** Reads the sets of tools and labelled queries: JSON Lines with gzip, one file for each set. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { parametersOf } from '../../../src/core/search/parameters.js';
import type { SearchDocument, SearchServer } from '../../../src/core/search/weighted-fields.js';

export const SETS = ['bfcl', 'livemcpbench', 'seal-tools', 'toollinkos'] as const;
export type SetName = (typeof SETS)[number];

export interface Tool {
  readonly id: string;
  readonly name: string;
  readonly description?: string;
  readonly server?: string;
  readonly parameters?: unknown;
}

export interface Query {
  readonly id: string;
  readonly query: string;
  readonly split: string;
  readonly steps?: readonly string[];
  /** Slots. Any one id of a slot satisfies it. */
  readonly relevant: readonly (readonly string[])[];
  readonly relevant_servers?: readonly (readonly string[])[];
}

export interface RoutingSet {
  readonly name: SetName;
  readonly servers: readonly SearchServer[];
  readonly tools: readonly Tool[];
  readonly queries: readonly Query[];
}

export function loadSet(folder: string, name: SetName): RoutingSet {
  const path = join(folder, `${name}.jsonl.gz`);
  if (!existsSync(path)) {
    throw new Error(
      `${path} does not exist. docs/routing.md says where the sets come from; give their folder as argument`,
    );
  }
  const lines = gunzipSync(readFileSync(path)).toString('utf8').trim().split('\n');
  const entries = lines.map((line) => JSON.parse(line) as { type: string; id: string });
  const of = <T>(type: string): T[] => entries.filter((entry) => entry.type === type) as T[];
  const servers = of<{ id: string; name: string; description?: string }>('server');
  return {
    name,
    servers: servers.map(({ id, name: title, description }) => ({
      name: id,
      title,
      ...(description !== undefined && { description }),
    })),
    tools: of<Tool>('tool'),
    queries: of<Query>('query').filter(({ relevant }) => relevant.length > 0),
  };
}

/** The name of the server of tools in sets without servers. */
const NO_SERVER = '';

/** The tools by server. Documents have the ids of the set as names in results, and the tools' own names as text. */
export function documentsOf(set: RoutingSet): Map<SearchServer, SearchDocument[]> {
  const servers = new Map([{ name: NO_SERVER }, ...set.servers].map((server) => [server.name, server]));
  const found = new Map<SearchServer, SearchDocument[]>();
  for (const { id, name, description, server, parameters } of set.tools) {
    const owner = servers.get(server ?? NO_SERVER)!;
    const documents = found.get(owner) ?? [];
    documents.push({
      key: id,
      name,
      ...(description !== undefined && { description }),
      parameters: parametersOf(parameters),
    });
    found.set(owner, documents);
  }
  return found;
}
