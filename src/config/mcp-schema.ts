import { duration, flag, group, integer, oneOf } from './field.js';

export const session = group('Sessions of clients whose revision has sessions.', {
  idle: duration({ default: '30m', description: 'How long an idle session stays open.' }),
  max: integer({
    default: 10_000,
    min: 1,
    max: 1_000_000,
    description: 'Maximum number of sessions of a process; at the limit the session that was idle for longest ends.',
  }),
  maxPerCaller: integer({
    default: 1_000,
    min: 1,
    max: 1_000_000,
    description: 'Maximum number of sessions of one caller in a process; applies with `auth`.',
  }),
  resumeWindow: duration({
    default: '10m',
    description:
      'How long a call continues after its client lost the connection; a client that reconnects in time gets the answer.',
  }),
  clientTermination: flag({ default: true, description: 'Whether a client may end its session with DELETE.' }),
});

export const mcp = group('The MCP endpoints.', {
  enabled: flag({
    default: true,
    description: 'Whether the gateway serves MCP.',
    oldNames: ['MCP_GATEWAY_ENABLED'],
  }),
  strictAccept: flag({
    default: false,
    description: 'Refuse requests whose `Accept` lacks one of the two media types that the revision requires.',
  }),
  versionNegotiation: oneOf(['lenient', 'strict'], {
    default: 'lenient',
    description:
      'The answer to an unknown revision in `initialize`: `lenient` offers the newest revision, `strict` is an error.',
  }),
  invocation: flag({
    default: true,
    description: '`false` switches tool calls off for every server.',
    oldNames: ['LLMROUTER_ENABLE_MCP_TOOL_INVOCATION'],
  }),
  sse: flag({
    default: true,
    description: 'Whether the gateway serves HTTP+SSE.',
    oldNames: ['MCP_SSE_TRANSPORT_ENABLED'],
  }),
  rawProxy: flag({
    default: false,
    description:
      'Whether administrators reach servers below `/mcp-proxy/<server>/`, where the rules about tools and calls do not apply.',
    oldNames: ['MCP_PROTOCOL_PROXY_ENABLED'],
  }),
  webSocket: flag({ default: true, description: 'Whether the gateway serves WebSocket.' }),
  legacyMode: flag({
    default: false,
    description: 'Answer 404 at the HTTP+SSE endpoints, so that clients fall back to Streamable HTTP.',
    oldNames: ['MCP_SSE_LEGACY_MODE'],
  }),
});

export const bridge = group('Questions that a server asks its client during a call.', {
  roots: flag({ default: true, description: 'Let servers ask for the roots of a client.' }),
  sampling: flag({ default: true, description: 'Let servers use the model of a client (sampling).' }),
  logging: flag({ default: true, description: 'Pass log messages of servers on to clients that want them.' }),
  parkTtl: duration({ default: '10m', description: 'How long a parked call waits for the answer of the client.' }),
  maxParked: integer({ default: 1000, min: 0, max: 100_000, description: 'Maximum number of parked calls.' }),
  maxParkedPerCaller: integer({
    default: 100,
    min: 0,
    max: 100_000,
    description: 'Maximum number of parked calls of a caller.',
  }),
  maxParkedPerServer: integer({
    default: 500,
    min: 0,
    max: 100_000,
    description: 'Maximum number of parked calls at a server.',
  }),
  maxTasks: integer({
    default: 10_000,
    min: 0,
    max: 1_000_000,
    description: 'Maximum number of calls that run as tasks of the gateway.',
  }),
  maxTasksPerCaller: integer({
    default: 1000,
    min: 0,
    max: 1_000_000,
    description: 'Maximum number of calls of a caller that run as tasks of the gateway.',
  }),
});
