import { ERROR_PROFILES, type ErrorProfile, VERSIONS } from '../protocol/a2a/dialect.js';
import { REVISION_DATES } from '../protocol/mcp/revisions/index.js';
import {
  addressRange,
  filePath,
  hostName,
  httpUrl,
  listenAddress,
  pemText,
  proxyUrl,
  urlField,
  webOrigin,
} from './address.js';
import { assess } from './assess-schema.js';
import { audit } from './audit-schema.js';
import { AUTH } from './auth-schema.js';
import { egress } from './egress-schema.js';
import { evaluators } from './evaluator-schema.js';
import { duration, flag, group, type Infer, integer, list, map, oneOf, secret, size, text } from './field.js';
import { openapi } from './openapi-schema.js';
import { ownPin, pin } from './pin-schema.js';
import { plugins } from './plugin-schema.js';
import { policyRules } from './policy-schema.js';
import { rateLimits } from './rate-schema.js';
import { reload } from './reload-schema.js';
import { serverReplicas } from './replica-schema.js';
import { ROUTING } from './routing-schema.js';
import { telemetry } from './telemetry-schema.js';
import { agentAuth, callerHeaders, forwardHeaders, HEADER_NAME, headers, serverAuth } from './upstream-auth-schema.js';
import { serverGroups, views } from './view-schema.js';

/** Defaults for reaching a server: a command may have to be downloaded before it starts. */
export const CONNECT = { url: 5_000, command: 60_000 } as const;
const CONNECT_DESCRIPTION =
  'Time limit for connecting to a `url`, or for a `command` to start and answer, including a download by npx or uvx.';

/** Overrides of `timeouts` for one server or agent. */
const ownTimeouts = (connect: string) =>
  group('Time limits for this one only; the others come from `timeouts`.', {
    connect: duration({ description: connect }),
    call: duration({ description: 'Time limit for a call without any message; progress restarts the time.' }),
    callMax: duration({ description: 'Time limit for a whole call, with or without progress.' }),
  });

/** TLS toward one server or agent. */
const ownTls = group(
  'TLS toward `url`, if it needs its own authorities or a client certificate; changed files are read again.',
  {
    ca: pemText({ description: 'Trusted authorities (PEM), instead of those of the system.' }),
    cert: pemText({ description: 'The client certificate of the gateway (PEM), with its intermediate certificates.' }),
    key: pemText({ description: 'The private key of `cert` (PEM).' }),
    serverName: text({
      description: 'The name in the certificate of the server, if it is not the host of `url`.',
      pattern: /^[A-Za-z0-9.-]+$/,
      what: 'is not a name',
      fix: 'write a host name, such as mcp.example.com',
    }),
  },
);

const ownProxy = proxyUrl({
  description:
    'The forward proxy for `url`, or `none`; the default comes from `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` (names, ' +
    'addresses, networks such as `10.0.0.0/8`).',
});

/** A tool's name at its own server. */
const ownTool = text({
  description: 'One name; `*` matches any characters.',
  pattern: /\S/,
  what: 'is empty',
  fix: "name a tool as the server itself does, without the server's name, such as forecast or read_*",
});

const offeredTools = group('The tools that the gateway offers, their names, and the trust in their descriptions.', {
  allow: list(ownTool, {
    description: "Tools to offer, by the server's names; `*` matches any characters. Empty means all.",
  }),
  deny: list(ownTool, { description: "Tools to hide, by the server's names; wins over `allow`." }),
  rename: map(
    text({
      description: 'The new name.',
      pattern: /^[A-Za-z0-9_.-]{1,128}$/,
      what: 'is not a name for a tool',
      fix: 'write up to 128 letters, digits, underscores, dashes and dots',
    }),
    { description: "New names for tools, by the server's names; the prefix is added to the new name.", keys: 'tool' },
  ),
  trust: integer({
    default: 100,
    min: 1,
    max: 100,
    description:
      'How much search trusts the descriptions of the server, in percent: the scores of its tools are multiplied by it.',
  }),
});

const server = group(
  'One MCP server: an HTTP endpoint (`url`), a program that speaks over stdio (`command`), or an HTTP API (`openapi`).',
  {
    url: httpUrl({ description: "The server's MCP endpoint." }),
    ...serverReplicas,
    openapi,
    command: text({
      description: 'The program to start, without a shell.',
      pattern: /\S/,
      what: 'is empty',
      fix: 'name a program, such as npx, uvx, node or docker',
    }),
    args: list(text({ description: 'One argument.' }), { description: "The program's arguments." }),
    env: map(secret({ description: 'The value of one variable.' }), {
      description: "Variables added to the program's environment.",
      keys: 'variable',
      dropsNull: true,
    }),
    envFile: filePath({ description: 'A file of `NAME=value` lines added to `env`; `env` wins.' }),
    cwd: filePath({ description: "The program's working directory; default: that of the gateway." }),
    headers,
    auth: serverAuth,
    forwardHeaders,
    callerHeaders,
    transport: oneOf(['auto', 'http', 'sse'], {
      default: 'auto',
      description: 'The transport of `url`: detected, Streamable HTTP only, or the older HTTP+SSE only.',
    }),
    revision: oneOf(['auto', 'modern', 'legacy', ...REVISION_DATES] as readonly string[], {
      default: 'auto',
      description: 'The MCP revision of the server: detected, the newest of an era, or exactly one.',
    }),
    invocation: flag({
      default: true,
      description: 'Whether callers may call its tools; the tools are listed in any case.',
    }),
    enabled: flag({ default: true, description: '`false` switches the server off.' }),
    pool: integer({
      default: 4,
      min: 1,
      max: 256,
      description:
        'Number of sessions for calls during which the server may ask the client a question (stdio and HTTP+SSE).',
    }),
    proxy: ownProxy,
    tls: ownTls,
    timeouts: ownTimeouts(CONNECT_DESCRIPTION),
    breaker: group(
      'Refuses calls at once while the server cannot be reached. Errors of tools and of callers do not count.',
      {
        failures: integer({ default: 5, min: 1, max: 1000, description: 'Failures in a row to reach the server.' }),
        pause: duration({ default: '2s', description: 'Time until one call is let through as a trial.' }),
      },
    ),
    tools: offeredTools,
    groups: serverGroups,
    lint: oneOf(['off', 'warn', 'strict'], {
      default: 'warn',
      description:
        'Whether the gateway checks names, descriptions and schemas of the tools: `warn` logs tools that are hard to use for ' +
        'models, `strict` does not offer them.',
    }),
    validation: oneOf(['off', 'warn', 'strict'], {
      default: 'off',
      description:
        'Whether the gateway checks the arguments of calls against the input schemas of the tools: `warn` logs what is wrong, ' +
        '`strict` refuses the call and tells the model.',
    }),
    pin: ownPin,
  },
);

const toolPattern = text({
  description: 'One name; `*` matches any characters.',
  pattern: /\S/,
  what: 'is empty',
  fix: 'name a tool as the gateway lists it, such as weather__forecast or weather__*',
});

const agent = group('One A2A agent: a remote agent (`url`), or a set of MCP tools (`tools`).', {
  url: httpUrl({ description: "The agent's base URL, or the URL of its card." }),
  tools: list(toolPattern, {
    description: 'MCP tools of this gateway that become the skills of the agent; the gateway itself is the agent.',
  }),
  version: oneOf(['auto', ...VERSIONS] as readonly string[], {
    default: 'auto',
    description: 'The A2A version of the agent: the one on its card, or exactly one.',
  }),
  binding: oneOf(['auto', 'jsonrpc', 'rest', 'grpc'], {
    default: 'auto',
    description: 'The binding to use: the first on its card, or exactly one.',
  }),
  headers,
  auth: agentAuth,
  forwardHeaders,
  description: text({ description: 'Replaces the description on the card.' }),
  signatures: oneOf(['ignore', 'verify', 'require'], {
    default: 'verify',
    description:
      'Signatures on its card: `ignore` does not check them, `verify` records the result, `require` refuses an unsigned card.',
  }),
  keys: text({ description: 'The public keys of the signatures on its card: a JWKS as URL, path or JSON.' }),
  hosts: list(hostName({ description: 'One host.' }), {
    description: 'Hosts other than that of `url` at which the interfaces on its card may be.',
  }),
  mcp: flag({ default: true, description: 'Whether MCP clients see its skills as tools.' }),
  enabled: flag({ default: true, description: '`false` switches the agent off.' }),
  proxy: ownProxy,
  tls: ownTls,
  timeouts: ownTimeouts('Time limit for connecting.'),
  pin: ownPin,
});

const NAMES = 'letters, digits, dashes and single underscores';

/** The configuration: all keys. */
export const SCHEMA = group('', {
  listen: listenAddress({
    default: '127.0.0.1:4600',
    description: 'The address to listen on; an address other than loopback needs `auth`.',
  }),
  publicUrl: httpUrl({ description: 'The URL of the gateway for clients, if there is a proxy in front of it.' }),
  tls: group(
    'TLS on `listen`: HTTPS with HTTP/2 and HTTP/1.1. Without it the gateway speaks plain HTTP. The gateway loads changed ' +
      'files within seconds, and at once on SIGHUP. If a new file is invalid, the gateway logs the error and keeps the ' +
      'old certificate.',
    {
      cert: filePath({
        description: 'The certificate of the gateway (PEM), followed by its intermediate certificates.',
      }),
      key: filePath({ description: 'The private key of `cert` (PEM).' }),
      clientCa: filePath({
        description:
          'The authorities (PEM) that sign client certificates; the handshake fails with a certificate of any other ' +
          'authority.',
      }),
      clientCertificate: oneOf(['required', 'optional'], {
        default: 'required',
        description: 'With `clientCa`: whether every client needs a certificate.',
      }),
    },
  ),
  trustedProxies: list(addressRange({ description: 'One address or network.' }), {
    description:
      'Addresses and networks of the proxies in front of the gateway, such as `10.0.0.0/8`. The gateway reads ' +
      '`X-Forwarded-For`, `-Proto`, `-Host`, `-Port` and `Forwarded` from these addresses only. The proxy must remove ' +
      'these headers from the requests of its own clients.',
  }),
  data: filePath({ default: './.parley', description: 'The folder of the embedded state.' }),
  servers: map(server, {
    description: `The MCP servers behind the gateway, by name (${NAMES}; case does not matter).`,
    keys: 'server',
  }),
  agents: map(agent, {
    description: `The A2A agents behind the gateway, by name (${NAMES}; case does not matter).`,
    keys: 'server',
  }),
  views,
  grpc: group('The gRPC endpoint for A2A; off unless `listen` is set.', {
    listen: listenAddress({ description: 'The address to listen on; an address other than loopback needs `auth`.' }),
    publicAddress: listenAddress({
      description: 'Host and port of the gRPC endpoint for clients, written into agent cards.',
    }),
  }),
  a2a: group('The A2A endpoints.', {
    enabled: flag({
      default: true,
      description: 'Whether the gateway serves A2A.',
      oldNames: ['A2A_GATEWAY_ENABLED'],
    }),
    publicCards: flag({ default: true, description: 'Whether callers without a token may read agent cards.' }),
    name: text({ default: 'Parley', description: "The name on the routing agent's card." }),
    description: text({
      default: 'A gateway to the agents behind it; each message goes to the one that suits it.',
      description: "The description on the routing agent's card.",
    }),
    organization: text({ description: "The provider on the routing agent's card." }),
    organizationUrl: httpUrl({ description: "The provider's URL." }),
    documentationUrl: httpUrl({ description: "The URL of the documentation on the routing agent's card." }),
    errorProfile: oneOf([...ERROR_PROFILES] as readonly ErrorProfile[], {
      default: ERROR_PROFILES[0],
      description: 'The A2A patch version that defines the HTTP and gRPC status of each error.',
    }),
    maxHops: integer({
      default: 8,
      min: 1,
      max: 100,
      description: 'Maximum number of gateways on the way of a message.',
    }),
    taskTtl: duration({ default: '72h', description: 'How long a task is stored after its last change.' }),
    parts: integer({
      default: 1000,
      min: 1,
      max: 100_000,
      description: 'Maximum number of parts in a message or artifact.',
    }),
    artifacts: integer({ default: 1000, min: 1, max: 100_000, description: 'Maximum number of artifacts in a task.' }),
    history: integer({
      default: 1000,
      min: 1,
      max: 100_000,
      description: 'Maximum number of messages in the history of a task.',
    }),
    tasks: integer({
      default: 10_000,
      min: 10,
      max: 10_000_000,
      description: 'Maximum number of stored tasks of a caller; beyond it the oldest finished ones are removed.',
    }),
    taskSize: size({
      default: '16MiB',
      description:
        'The largest task; beyond it the oldest messages of its history are dropped, and larger artifacts refused.',
    }),
    streams: integer({
      default: 100,
      min: 1,
      max: 100_000,
      description: 'Maximum number of open streams of a caller.',
    }),
    pushConfigs: integer({ default: 20, min: 1, max: 1000, description: 'Maximum number of webhooks of a task.' }),
  }),
  assess,
  egress,
  pin,
  naming: group('Names of tools and prompts at the endpoint for all servers.', {
    separator: oneOf(['__', '.', '-'], {
      default: '__',
      description: "The text between the server's name and the tool's name.",
    }),
    prefix: oneOf(['always', 'conflict', 'never'], {
      default: 'always',
      description: "When a name starts with the server's name; `conflict` means if two servers have the name.",
    }),
  }),
  reload,
  routing: ROUTING,
  timeouts: group('Time limits.', {
    connect: duration({ preset: '`5s`, a command `60s`', description: CONNECT_DESCRIPTION }),
    call: duration({
      default: '60s',
      description: 'Time limit for a call without any message; progress restarts the time.',
    }),
    callMax: duration({ default: '10m', description: 'Time limit for a whole call, with or without progress.' }),
    drain: duration({ default: '30s', description: 'Time for running calls to finish when the gateway stops.' }),
    head: duration({
      default: '5s',
      description: "Time limit for the head of a client's request, and for its TLS handshake.",
    }),
    request: duration({ default: '30s', description: "Time limit for receiving a client's whole request." }),
    idle: duration({
      default: '75s',
      description:
        'How long an idle connection of a client stays open; set it higher than the idle time of a load balancer in ' +
        'front (60s at Amazon and in nginx, 600s at Google); otherwise calls fail now and then.',
    }),
    webSocketPing: duration({
      default: '30s',
      description:
        'Time between two pings on a WebSocket; a client that has not answered the previous one is disconnected.',
    }),
  }),
  limits: group('Limits on sizes and numbers.', {
    body: size({ default: '4MiB', description: 'The largest request body.' }),
    event: size({ default: '4MiB', description: 'The largest message of an event stream or of a stdio server.' }),
    depth: integer({ default: 64, min: 8, max: 1000, description: 'The deepest nesting of a JSON message.' }),
    members: integer({
      default: 100_000,
      min: 1000,
      max: 10_000_000,
      description: 'Maximum number of objects, arrays and object members in a JSON message, counted together.',
    }),
    batch: integer({ default: 50, min: 1, max: 1000, description: 'Maximum number of messages in a JSON-RPC batch.' }),
    pageSize: integer({
      default: 1000,
      min: 1,
      max: 10_000,
      description: 'Maximum number of entries on one page of a list.',
    }),
    connections: integer({
      default: 10_000,
      min: 1,
      max: 1_000_000,
      description:
        'Maximum number of open connections; at the limit the gateway closes the connection that was idle for longest.',
    }),
    connectionsPerAddress: integer({
      default: 1000,
      min: 1,
      max: 1_000_000,
      description:
        'Maximum number of connections from one address (IPv6: one /64 network); for each client behind one of the ' +
        '`trustedProxies` it limits the concurrent requests instead.',
    }),
    callsPerCaller: integer({
      default: 2000,
      min: 1,
      max: 1_000_000,
      description: 'Maximum number of concurrent calls of one caller; applies with `auth`.',
    }),
    callsPerSession: integer({
      default: 500,
      min: 1,
      max: 1_000_000,
      description: 'Maximum number of concurrent calls of one session, in revisions with sessions.',
    }),
    callsPerServer: integer({
      default: 5000,
      min: 1,
      max: 1_000_000,
      description: 'Maximum number of concurrent calls to one server.',
    }),
    webSockets: integer({
      default: 1000,
      min: 1,
      max: 1_000_000,
      description: 'Maximum number of open WebSockets.',
    }),
    webSocketsPerCaller: integer({
      default: 100,
      min: 1,
      max: 1_000_000,
      description: 'Maximum number of open WebSockets of one caller; without `auth` all clients are one caller.',
    }),
    head: size({ default: '16KiB', description: "The largest head of a client's request." }),
    unread: size({
      default: '128MiB',
      description:
        'Maximum number of bytes that wait for slow clients, for all clients together; beyond it the gateway closes the ' +
        'connections of the slowest readers.',
    }),
    ...rateLimits,
  }),
  auth: AUTH,
  hosts: list(hostName({ description: 'One host.' }), {
    description: 'Accepted `Host` names, in addition to those of `listen` and `publicUrl`.',
  }),
  origins: list(webOrigin({ any: false, description: 'One origin.' }), {
    description: 'Accepted origins of web pages, in addition to those of this machine.',
  }),
  cors: group('CORS headers for web pages of other origins.', {
    origins: list(webOrigin({ any: true, description: 'One origin, or `*`.' }), {
      default: ['*'],
      description: 'Origins whose pages may read the answers.',
    }),
    credentials: flag({
      default: false,
      description: 'Whether these pages may send cookies; not allowed with the origin `*`.',
    }),
  }),
  session: group('Sessions of clients whose revision has sessions.', {
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
        'How long a call runs on after its client lost the connection; a client that returns in time gets the answer.',
    }),
    clientTermination: flag({ default: true, description: 'Whether a client may end its session with DELETE.' }),
  }),
  mcp: group('The MCP endpoints.', {
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
        'Whether administrators reach servers below `/mcp-proxy/<server>/`, past the rules about tools and their calls.',
      oldNames: ['MCP_PROTOCOL_PROXY_ENABLED'],
    }),
    webSocket: flag({ default: true, description: 'Whether the gateway serves WebSocket.' }),
    legacyMode: flag({
      default: false,
      description: 'Answer 404 at the HTTP+SSE endpoints, so that clients fall back to Streamable HTTP.',
      oldNames: ['MCP_SSE_LEGACY_MODE'],
    }),
  }),
  bridge: group('Questions that a server asks its client during a call.', {
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
  }),
  audit,
  plugins,
  policy: group('The calls that are allowed, denied, or approved by a person.', {
    ...policyRules,
    approve: group('Calls that need approval before they run.', {
      tools: list(toolPattern, {
        description: "Tools that need approval, by the names in the gateway's lists; `*` matches any characters.",
      }),
      destructive: flag({ default: false, description: 'Whether every tool with `destructiveHint` needs approval.' }),
    }),
  }),
  state: group('Storage of state that outlives a process. Default: an embedded database in `data`.', {
    db: urlField(
      ['postgres:', 'postgresql:'],
      'URL',
      'write a postgres:// URL, or leave the key out for the embedded database',
      { description: 'A PostgreSQL database; several replicas need it.' },
    ),
    directDb: urlField(
      ['postgres:', 'postgresql:'],
      'URL',
      'write a postgres:// URL, or leave the key out if `db` is the address of the server itself',
      {
        description:
          'The address of the database server itself, if `db` is the address of a pooler in transaction mode such as ' +
          'PgBouncer; notifications, leases and migrations use it, because they need a connection that stays the same.',
      },
    ),
    bus: urlField(
      ['redis:', 'rediss:', 'redis+cluster:', 'rediss+cluster:'],
      'URL',
      'write a redis:// or rediss:// URL (redis+cluster:// for a Redis Cluster), or leave the key out',
      {
        description:
          'A Redis or Valkey server for streams and leases, beside `db`; default: `db`. `redis+cluster://` and the ' +
          'address of any node for a Redis Cluster, whose other nodes are found from there.',
      },
    ),
    keys: list(
      secret({
        description: 'One key.',
        pattern: /^[\x21-\x7e]{32,}$/,
        what: 'is not a key',
        fix: 'write at least 32 visible characters, such as the output of: openssl rand -base64 32',
      }),
      { description: 'Keys for sealed values, the same on every replica. The first key seals; every key opens.' },
    ),
    retention: group('How long records without an expiry are kept.', {
      auditDays: integer({
        default: 365,
        min: 0,
        max: 36_500,
        description: 'Days to keep an audit record; 0 keeps it for ever.',
      }),
      deadDeliveryDays: integer({
        default: 30,
        min: 0,
        max: 36_500,
        description: 'Days to keep a webhook delivery that failed for good; 0 keeps it for ever.',
      }),
    }),
  }),
  health: group('Probes of servers that are not in use.', {
    interval: duration({
      default: '30s',
      description: 'Time between two probes of a server with a `url`, with a jitter of 20 %; each replica probes.',
    }),
  }),
  explainFailures: oneOf(['auto', 'always', 'never'], {
    default: 'auto',
    description:
      'Whether errors show callers the URL of a failed server, its answer, or the output of its process; `auto` does so ' +
      'without `auth` only.',
  }),
  ...telemetry,
  evaluators,
  log: group('The log, on stderr.', {
    level: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
      default: 'info',
      description: 'The lowest level to write; calls have the level `info` in JSON and `debug` in text.',
    }),
    format: oneOf(['auto', 'text', 'json'], {
      default: 'auto',
      description: 'The format of log lines; `auto` is text on a terminal and JSON otherwise.',
    }),
  }),
});

type Written = Infer<typeof SCHEMA>;
type WrittenServer = Written['servers'][string];

/** One server, ready to use: all its timeouts are set, and a global `mcp.invocation: false` is applied. */
export type ServerConfig = Omit<WrittenServer, 'timeouts' | 'envFile' | 'pin'> & {
  readonly pin: Written['pin'];
  readonly timeouts: { readonly connect: number; readonly call: number; readonly callMax: number };
};

/** One agent, ready to use. */
export type AgentConfig = Omit<Written['agents'][string], 'timeouts' | 'pin'> & Pick<ServerConfig, 'timeouts' | 'pin'>;

/** The configuration, ready to use: durations in milliseconds, sizes in bytes, paths absolute, names in lower case. */
export type Config = Omit<Written, 'servers' | 'agents' | 'timeouts'> & {
  /** `connectCommand` applies to servers that are processes; it equals `connect` if `connect` is set. */
  readonly timeouts: Written['timeouts'] & { readonly connect: number; readonly connectCommand: number };
  readonly servers: Readonly<Record<string, ServerConfig>>;
  readonly agents: Readonly<Record<string, AgentConfig>>;
};

/** The validated file, before values that depend on other keys are computed. */
export type WrittenConfig = Written;

export { HEADER_NAME };
