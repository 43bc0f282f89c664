import { ALL_SERVERS, View } from '../../core/gateway.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { InboundRequest } from '../http/request.js';

/** Limit on the names in the selection of one request. */
const MOST_NAMES = 200;

/**
 * The servers that a request selects: `x-mcp-servers` names servers or groups, `x-mcp-access-groups` names groups. A
 * name that the caller may not see selects nothing, like a name that does not exist.
 */
export function selectedView(req: Pick<InboundRequest, 'header'>): View {
  const servers = namesIn(req, 'x-mcp-servers');
  const groups = namesIn(req, 'x-mcp-access-groups');
  if (!servers && !groups) return ALL_SERVERS;
  return new View({
    servers: servers?.map((name) => name.toLowerCase()) ?? [],
    groups: [...new Set([...(servers ?? []), ...(groups ?? [])])],
  });
}

/**
 * Sorted, so that the order of the names does not matter. An empty header selects all servers, like a missing header.
 */
function namesIn(req: Pick<InboundRequest, 'header'>, header: string): string[] | undefined {
  const value = req.header(header);
  if (value === undefined || value.trim() === '') return undefined;
  const names = [...new Set(value.split(',').map((name) => name.trim()))].filter((name) => name !== '').sort();
  if (names.length > MOST_NAMES)
    throw new ProtocolError('invalid_request', `${header} names more than ${MOST_NAMES} servers or groups`);
  return names;
}
