import { REVISIONS } from '../../protocol/mcp/revisions/index.js';
import { skip } from '../requirement.js';
import type { Surface } from '../run.js';
import type { Detected, McpTarget } from './detect.js';
import type { OpenOptions, Peer } from './peer.js';
import { LOCKED_PROBES, MCP_OBSERVATIONS, MCP_PROBES } from './probes.js';
import { McpSurface } from './surface.js';

const INVALID_PARAMS = -32602;

export interface McpSurfaceOptions {
  readonly active: boolean;
  readonly credentials: boolean;
  /** The methods of the revisions. The assessment sets for each whether the server serves it. */
  readonly methods: Record<string, boolean | null>;
}

/** The names of the surfaces in reports, such as `2025-11-25 over http`. */
export const surfaceNames = ({ targets, locked }: Detected): string[] =>
  targets.map(({ revision, transport }) =>
    locked ? `no revision over ${transport}: authorization is needed` : `${revision.date} over ${transport}`,
  );

/** The surfaces of a server, opened when their turn comes. */
export function mcpSurfaces(
  detected: Detected,
  { active, credentials, methods }: McpSurfaceOptions,
): (() => Promise<Surface>)[] {
  const { targets, locked } = detected;
  const names = surfaceNames(detected);
  return targets.map((target, i) => async (): Promise<Surface> => {
    const peer = await target.open();
    const revisions = targets.filter(sameTransport(target)).map(({ revision }) => revision.date);
    // Connections that a probe could not close, because the time was over.
    const others = new Set<Peer>();
    const fresh = async (how?: OpenOptions): Promise<Peer> => {
      const other = await target.open(how);
      others.add(other);
      return other;
    };
    const surface = new McpSurface({ peer, active, credentials, revisions, fresh });
    return {
      name: names[i]!,
      transport: target.transport,
      version: REVISIONS.indexOf(target.revision),
      probe: async (name) => {
        if (locked && !LOCKED_PROBES.has(name)) return skip('the server needs a token, and none was given');
        const probe = MCP_PROBES[name] ?? MCP_OBSERVATIONS[name];
        if (probe === undefined) throw new Error(`there is no probe ${name}`);
        await surface.revive();
        return probe(surface);
      },
      late: (name) => MCP_OBSERVATIONS[name] !== undefined,
      close: async () => {
        for (const { method, result, error, code } of surface.peer.log)
          if (Object.hasOwn(methods, method) && (result ?? error) !== undefined)
            // A server that refuses the parameters of a method has the method.
            methods[method] = methods[method] === true || result !== undefined || code === INVALID_PARAMS;
        await Promise.allSettled([surface.peer, ...others].map((each) => each.close()));
      },
    };
  });
}

const sameTransport =
  ({ transport }: McpTarget) =>
  (other: McpTarget): boolean =>
    other.transport === transport;
