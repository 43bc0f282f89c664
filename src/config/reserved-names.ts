/** Names that servers, views and agents cannot have, because the gateway uses them in its own paths. */

/**
 * Names that no server and no view can have, each with the endpoint of the gateway at the path `/mcp/NAME` or
 * `/NAME/mcp`. A test compares the names with the routes.
 */
export const RESERVED_SERVERS: ReadonlyMap<string, string> = new Map([
  ...['sse', 'messages'].map((name) => [name, `/mcp/${name}`] as const),
  ...['a2a', 'connect', 'mcp-proxy', 'ws'].map((name) => [name, `/${name}/mcp`] as const),
]);

/**
 * The paths of the gateway itself below /a2a, which no agent can have as a name. A test compares them with the routes.
 */
export const RESERVED_AGENTS: ReadonlySet<string> = new Set([
  ...['agent', 'agents', 'extendedagentcard', 'message', 'push', 'rpc', 'tasks', 'v1'],
]);

/**
 * The gateway's own paths below /connect. A server at which users sign in cannot have one of these names. A test
 * compares the names with the routes.
 */
export const RESERVED_LOGINS: ReadonlySet<string> = new Set(['agents', 'callback', 'client-metadata.json', 'return']);
