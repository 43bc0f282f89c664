import { REVISIONS } from '../protocol/mcp/revisions/index.js';
import type { Specification } from './report/model.js';
import { type Requirement, versionIndexes } from './requirement.js';

const MCP = 'https://modelcontextprotocol.io/specification';
const A2A = 'https://a2a-protocol.org';

/** The address of the page, in the newest version that has the requirement. */
export function specLink({ protocol, spec, versions }: Requirement): string {
  if (spec.startsWith('https://')) return spec;
  if (protocol === 'A2A') return `${A2A}/${spec}`;
  const newest = REVISIONS[Math.max(...versionIndexes(versions))];
  return `${MCP}/${newest?.date ?? 'draft'}/${spec}`;
}

/** The specifications of versions, each once. */
export function specifications(protocol: Requirement['protocol'], versions: readonly string[]): Specification[] {
  const url = (version: string): string => (protocol === 'MCP' ? `${MCP}/${version}` : A2A);
  return [...new Set(versions)].map((version) => ({ version, url: url(version) }));
}
