import type { Level, Requirement, Transport } from '../requirement.js';

export type RowOf = Requirement;

export const ANY: readonly Transport[] = ['http', 'sse', 'stdio', 'ws'];
export const HTTP: readonly Transport[] = ['http'];
export const WIRE: readonly Transport[] = ['http', 'sse', 'ws'];
export const SSE: readonly Transport[] = ['sse'];
export const STDIO: readonly Transport[] = ['stdio'];
export const WS: readonly Transport[] = ['ws'];

/** One requirement of MCP. `probe` is the name of a probe, or the reason why the requirement cannot be observed. */
export function row(
  id: string,
  level: Level,
  versions: string,
  over: readonly Transport[],
  category: string,
  probe: string | { readonly unobservable: string },
  spec: string,
  text: string,
  fix: string,
): Requirement {
  const seen = typeof probe === 'string' ? { probe } : probe;
  return { id, protocol: 'MCP', level, versions, over, category, text, spec, fix, ...seen };
}
