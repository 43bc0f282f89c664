import type { Revision } from '../../protocol/mcp/revisions/index.js';
import { REVISIONS } from '../../protocol/mcp/revisions/index.js';
import { skip } from '../requirement.js';
import type { Surface } from '../run.js';
import type { Detected, McpTarget } from './detect.js';
import { LOCKED_PROBES, MCP_OBSERVATIONS, MCP_PROBES } from './probes.js';
import { McpSurface } from './surface.js';

export interface McpSurfaceOptions {
  readonly active: boolean;
  readonly credentials: boolean;
  /** Records the methods that the server serves. */
  readonly methods: Record<string, boolean>;
}

/** The name of a revision over a transport in reports. */
export const surfaceName = (revision: Revision, transport: string): string => `${revision.date} over ${transport}`;

/** The surfaces of a server, opened when their turn comes. */
export function mcpSurfaces(
  { targets, locked }: Detected,
  { active, credentials, methods }: McpSurfaceOptions,
): (() => Promise<Surface>)[] {
  return targets.map((target) => async (): Promise<Surface> => {
    const peer = await target.open();
    const revisions = targets.filter(sameTransport(target)).map(({ revision }) => revision.date);
    const surface = new McpSurface({ peer, active, credentials, revisions, fresh: target.open });
    return {
      name: surfaceName(target.revision, target.transport),
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
        for (const { method, result, error } of surface.peer.log)
          if (/^(?!parley)[a-z]+(\/[a-zA-Z/]+)?$/.test(method) && (result ?? error) !== undefined)
            methods[method] = (methods[method] ?? false) || result !== undefined;
        await surface.peer.close();
      },
    };
  });
}

const sameTransport =
  ({ transport }: McpTarget) =>
  (other: McpTarget): boolean =>
    other.transport === transport;
