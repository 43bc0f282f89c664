import { REVISIONS } from '../protocol/mcp/revisions/index.js';
import { A2A_VERSIONS, type A2aVersion } from './a2a/operations.js';
import type { Specification } from './report/model.js';
import { type Requirement, versionIndexes } from './requirement.js';

const MCP = 'https://modelcontextprotocol.io/specification';

/** The last texts of each version; the site does not have those of the first. */
const A2A: Readonly<Record<A2aVersion, string>> = {
  '0.1': 'https://github.com/a2aproject/A2A/tree/v0.1.0',
  '0.2': 'https://a2a-protocol.org/v0.2.6',
  '0.3': 'https://a2a-protocol.org/v0.3.0',
  '1.0': 'https://a2a-protocol.org/v1.0.1',
};

/** The address of the page, in the newest version that has the requirement. */
export function specLink({ protocol, spec, versions }: Requirement): string {
  if (spec.startsWith('https://')) return spec;
  const newest = Math.max(...versionIndexes(versions));
  if (protocol === 'A2A') return `${A2A[A2A_VERSIONS[newest]!]}/${spec}`;
  return `${MCP}/${REVISIONS[newest]?.date ?? 'draft'}/${spec}`;
}

/** The specifications of versions, each once. */
export function specifications(protocol: Requirement['protocol'], versions: readonly string[]): Specification[] {
  const url = (version: string): string => (protocol === 'MCP' ? `${MCP}/${version}` : A2A[version as A2aVersion]);
  return [...new Set(versions)].map((version) => ({ version, url: url(version) }));
}
