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
import { duration, flag, group, type Infer, integer, list, map, oneOf, secret, size, text } from './field.js';

/** RFC 9110 token: what a header's name may hold. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

const headers = map(
  secret({
    description: 'The value of one header.',
    pattern: /^[\t\x20-\x7e\x80-\xff]*$/,
    what: 'cannot be sent in a header',
    fix: 'remove line breaks and characters outside Latin-1',
  }),
  { description: 'Headers sent with every request to `url`.', keys: 'header' },
);

/** How long it takes to reach a server where nothing is said: a command may have to be fetched before it starts. */
export const CONNECT = { url: 5_000, command: 60_000 } as const;
const CONNECT_DESCRIPTION =
  'How long a connection to a `url` may take, or a `command` from its start until it answers; npx and uvx may have to ' +
  'fetch the program first.';

/** Overrides of `timeouts` for one server or agent. */
const ownTimeouts = (connect: string) =>
  group('Times for this one only; what is left out is taken from `timeouts`.', {
    connect: duration({ description: connect }),
    call: duration({ description: 'How long a call may be silent; progress starts it anew.' }),
    callMax: duration({ description: 'How long a call may take in all, progress or not.' }),
  });

/** How TLS is spoken to one server or agent. */
const ownTls = group(
  'TLS toward `url`, where what the system trusts is not enough; files that change are read again.',
  {
    ca: pemText({ description: 'The authorities trusted here (PEM), instead of those of the system.' }),
    cert: pemText({ description: 'The certificate the gateway shows (PEM), with those that sign it.' }),
    key: pemText({ description: 'The private key of `cert` (PEM).' }),
    serverName: text({
      description: 'The name its certificate has to carry, where that is not the host of `url`.',
      pattern: /^[A-Za-z0-9.-]+$/,
      what: 'is not a name',
      fix: 'write a host name, such as mcp.example.com',
    }),
  },
);

const ownProxy = proxyUrl({
  description:
    'The forward proxy that leads to `url`, or `none`; where it is left out `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` ' +
    'decide.',
});

/** Names of tools as their server has them. */
const ownTool = text({
  description: 'One name, `*` standing for any characters.',
  pattern: /\S/,
  what: 'is empty',
  fix: "name a tool as the server itself does, without the server's name, such as forecast or read_*",
});

const offeredTools = group('Which of its tools are offered, and under which names.', {
  allow: list(ownTool, {
    description: 'Its tools that are offered, by their own names; `*` stands for any characters. All of them if empty.',
  }),
  deny: list(ownTool, { description: 'Its tools that are not offered, though `allow` may name them.' }),
  rename: map(
    text({
      description: 'The name it is offered under.',
      pattern: /^[A-Za-z0-9_.-]{1,128}$/,
      what: 'is not a name for a tool',
      fix: 'write up to 128 letters, digits, underscores, dashes and dots',
    }),
    { description: "Other names for its tools, by their own names; the server's name is put in front.", keys: 'tool' },
  ),
});

const server = group('One MCP server: an HTTP endpoint (`url`) or a program spoken to over stdio (`command`).', {
  url: httpUrl({ description: "The server's MCP endpoint." }),
  command: text({
    description: 'The program to start; it is run as it is, without a shell.',
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
  cwd: filePath({ description: "The program's working directory; the gateway's own where it is left out." }),
  headers,
  transport: oneOf(['auto', 'http', 'sse'], {
    default: 'auto',
    description: 'How `url` is spoken to: detected, Streamable HTTP only, or the older HTTP+SSE only.',
  }),
  revision: oneOf(['auto', 'modern', 'legacy', ...REVISION_DATES] as readonly string[], {
    default: 'auto',
    description: 'The MCP revision to speak: detected, the newest of an era, or exactly one.',
  }),
  invocation: flag({ default: true, description: 'Whether its tools may be called; they are listed either way.' }),
  enabled: flag({ default: true, description: 'Whether the server takes part at all.' }),
  pool: integer({
    default: 4,
    min: 1,
    max: 256,
    description: 'How many sessions are kept for calls that may ask something back.',
  }),
  proxy: ownProxy,
  tls: ownTls,
  timeouts: ownTimeouts(CONNECT_DESCRIPTION),
  tools: offeredTools,
});

const toolPattern = text({
  description: 'One name, `*` standing for any characters.',
  pattern: /\S/,
  what: 'is empty',
  fix: 'name a tool as the gateway lists it, such as weather__forecast or weather__*',
});

const agent = group('One A2A agent: where it is (`url`), or the MCP tools it is made of (`tools`).', {
  url: httpUrl({ description: "The agent's base URL, or the URL of its card." }),
  tools: list(toolPattern, {
    description: 'MCP tools of this gateway that are its skills; the gateway itself is the agent then.',
  }),
  version: oneOf(['auto', ...VERSIONS] as readonly string[], {
    default: 'auto',
    description: 'The A2A version to speak: what its card says, or exactly one.',
  }),
  binding: oneOf(['auto', 'jsonrpc', 'rest', 'grpc'], {
    default: 'auto',
    description: 'The binding to speak: the first its card offers, or exactly one.',
  }),
  headers,
  description: text({ description: 'What it is for, where its card should say something else.' }),
  signatures: oneOf(['ignore', 'verify', 'require'], {
    default: 'verify',
    description: 'What becomes of signatures on its card: not looked at, checked and recorded, or needed.',
  }),
  keys: text({ description: 'The keys its card is signed with: a JWKS as URL, path or JSON.' }),
  mcp: flag({ default: true, description: 'Whether its skills are MCP tools too.' }),
  enabled: flag({ default: true, description: 'Whether the agent takes part at all.' }),
  proxy: ownProxy,
  tls: ownTls,
  timeouts: ownTimeouts('How long a connection may take.'),
});

const callerToken = group('A caller and its token.', {
  name: text({
    required: true,
    description: "The caller's name: what sessions, tasks and log lines belong to.",
    pattern: /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/,
    what: 'is not a name for a caller',
    fix: 'write up to 64 letters, digits, dots, dashes, underscores or @, starting with a letter or digit',
  }),
  token: secret({ required: true, description: 'What it sends as `Authorization: Bearer`; at least 16 characters.' }),
  admin: flag({ default: false, description: 'Whether it may also use the administrative routes.' }),
});

const NAMES = 'letters, digits, dashes and single underscores';

/** The configuration: every key, once. */
export const SCHEMA = group('', {
  listen: listenAddress({
    default: '127.0.0.1:4600',
    description: 'Where to listen; any address but loopback needs `auth`.',
  }),
  publicUrl: httpUrl({ description: 'The URL callers reach the gateway under, when it stands behind a proxy.' }),
  tls: group(
    'TLS on `listen`: HTTPS, where each client speaks HTTP/2 or HTTP/1.1 as it prefers. Without it the gateway speaks ' +
      'plain HTTP. Changed files are taken into use within seconds, and at once on SIGHUP; a file that cannot be used ' +
      'is logged, and the certificate in use stays.',
    {
      cert: filePath({ description: 'The certificate of the gateway in PEM form, and after it those that sign it.' }),
      key: filePath({ description: 'The private key of `cert` in PEM form.' }),
      clientCa: filePath({
        description:
          'The authorities (PEM) that sign the certificates of clients; a certificate of another authority is refused ' +
          'in the handshake.',
      }),
      clientCertificate: oneOf(['required', 'optional'], {
        default: 'required',
        description: 'Whether `clientCa` makes a certificate necessary, or leaves it to the client to show one.',
      }),
    },
  ),
  trustedProxies: list(addressRange({ description: 'One address or network.' }), {
    description:
      'Addresses and networks of the proxies in front of the gateway, such as `10.0.0.0/8`. Only from there ' +
      '`X-Forwarded-For`, `-Proto`, `-Host`, `-Port` and `Forwarded` count; the proxy has to remove what its own ' +
      'clients send of them.',
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
  grpc: group('The gRPC endpoint for A2A; closed unless it has an address.', {
    listen: listenAddress({ description: 'Where to listen; any address but loopback needs `auth`.' }),
    publicAddress: listenAddress({ description: 'The host and port callers reach it under, for cards.' }),
  }),
  a2a: group('The A2A endpoints.', {
    enabled: flag({
      default: true,
      description: 'Whether they are open at all.',
      oldNames: ['A2A_GATEWAY_ENABLED'],
    }),
    publicCards: flag({ default: true, description: 'Whether cards are read by everybody, `auth` or not.' }),
    name: text({ default: 'Parley', description: "The name on the gateway's own card." }),
    description: text({
      default: 'A gateway to the agents behind it; each message goes to the one that suits it.',
      description: "The description on the gateway's own card.",
    }),
    organization: text({ description: "The provider on the gateway's own card." }),
    organizationUrl: httpUrl({ description: "The provider's URL." }),
    documentationUrl: httpUrl({ description: 'Where documentation is, for cards.' }),
    errorProfile: oneOf([...ERROR_PROFILES] as readonly ErrorProfile[], {
      default: ERROR_PROFILES[0],
      description: 'Whose HTTP and gRPC statuses errors have: those of the newest patch, or of the one before.',
    }),
    maxHops: integer({
      default: 8,
      min: 1,
      max: 100,
      description: 'The most gateways a message may have come through.',
    }),
    taskTtl: duration({ default: '72h', description: 'How long a task is kept after its last change.' }),
    parts: integer({ default: 1000, min: 1, max: 100_000, description: 'The most parts of a message or artifact.' }),
    artifacts: integer({ default: 1000, min: 1, max: 100_000, description: 'The most artifacts of a task.' }),
    history: integer({ default: 1000, min: 1, max: 100_000, description: 'The most messages of a history kept.' }),
    streams: integer({ default: 100, min: 1, max: 100_000, description: 'The most streams a caller may have open.' }),
    pushConfigs: integer({ default: 20, min: 1, max: 1000, description: 'The most webhooks of a task.' }),
  }),
  egress: group('Where the gateway may go on behalf of callers and cards: webhooks, keys, interfaces of agents.', {
    allowPrivate: flag({
      default: false,
      description: 'Whether addresses of this machine and of private networks are allowed.',
    }),
    ports: list(integer({ min: 1, max: 65_535, description: 'One port.' }), {
      description: 'Ports allowed beside 80 and 443.',
    }),
    proxy: proxyUrl({
      description:
        'The forward proxy for these addresses, which is asked for tunnels to addresses that were checked and never for ' +
        'names; proxies of the environment are not used here.',
    }),
  }),
  naming: group('How tools and prompts of several servers are told apart.', {
    separator: oneOf(['__', '.', '-'], {
      default: '__',
      description: "Stands between the server's name and the tool's.",
    }),
    prefix: oneOf(['always', 'conflict', 'never'], {
      default: 'always',
      description: "When the server's name is put in front.",
    }),
  }),
  timeouts: group('How long things may take.', {
    connect: duration({ preset: '`5s`, a command `60s`', description: CONNECT_DESCRIPTION }),
    call: duration({ default: '60s', description: 'How long a call may be silent; progress starts it anew.' }),
    callMax: duration({ default: '10m', description: 'How long a call may take in all, progress or not.' }),
    drain: duration({ default: '30s', description: 'How long outstanding calls may take to finish at a stop.' }),
    head: duration({ default: '5s', description: "How long the head of a client's request, or its TLS, may take." }),
    request: duration({ default: '30s', description: "How long all of a client's request may take to arrive." }),
    idle: duration({
      default: '75s',
      description:
        'How long a connection is kept for the next request of its client; keep it above the idle time of a load ' +
        'balancer in front (60s at Amazon and in nginx, 600s at Google), or calls fail now and then.',
    }),
  }),
  limits: group('How large things may be.', {
    body: size({ default: '4MiB', description: 'The largest request body.' }),
    event: size({ default: '4MiB', description: 'The largest message of an event stream or of a stdio server.' }),
    depth: integer({ default: 64, min: 8, max: 1000, description: 'The deepest nesting of a JSON message.' }),
    members: integer({
      default: 100_000,
      min: 1000,
      max: 10_000_000,
      description: 'The most objects, arrays and members of objects in a JSON message, counted together.',
    }),
    batch: integer({ default: 50, min: 1, max: 1000, description: 'The most messages in a JSON-RPC batch.' }),
    pageSize: integer({ default: 1000, min: 1, max: 10_000, description: 'The most entries on one page of a list.' }),
    connections: integer({
      default: 10_000,
      min: 1,
      max: 1_000_000,
      description: 'The most connections open at once; beyond it the one that is idle for the longest time is closed.',
    }),
    connectionsPerAddress: integer({
      default: 1000,
      min: 1,
      max: 1_000_000,
      description:
        'The most connections of one address (in IPv6 of one /64 network); `trustedProxies` are exempt, and of each ' +
        'client behind one the requests under way are bounded instead.',
    }),
    callsPerCaller: integer({
      default: 2000,
      min: 1,
      max: 1_000_000,
      description: 'The most calls of one caller under way at once, where callers are told apart (`auth`).',
    }),
    callsPerSession: integer({
      default: 500,
      min: 1,
      max: 1_000_000,
      description: 'The most calls of one session under way at once, in revisions that have sessions.',
    }),
    callsPerServer: integer({
      default: 5000,
      min: 1,
      max: 1_000_000,
      description: 'The most calls to one server under way at once.',
    }),
    head: size({ default: '16KiB', description: "The largest head of a client's request." }),
    unread: size({
      default: '128MiB',
      description:
        'The most bytes of answers that wait for clients to read them, of all clients together; beyond it the slowest ' +
        'readers are cut.',
    }),
  }),
  auth: group('Who may call; without it everyone on this machine may, and nobody else.', {
    tokens: list(callerToken, { description: 'The callers that are known by a bearer token.' }),
  }),
  hosts: list(hostName({ description: 'One host.' }), {
    description: 'Host names accepted beside the one listened on and that of `publicUrl`.',
  }),
  origins: list(webOrigin({ any: false, description: 'One origin.' }), {
    description: 'Origins of web pages accepted beside those of this machine.',
  }),
  cors: group('What browsers are told about pages of other origins.', {
    origins: list(webOrigin({ any: true, description: 'One origin, or `*`.' }), {
      default: ['*'],
      description: 'Origins whose pages may read answers.',
    }),
    credentials: flag({
      default: false,
      description: 'Whether those pages may send cookies; not together with the origin `*`.',
    }),
  }),
  session: group('Sessions of clients that speak a revision with sessions.', {
    idle: duration({ default: '30m', description: 'How long an unused session is kept.' }),
    max: integer({
      default: 10_000,
      min: 1,
      max: 1_000_000,
      description: 'The most sessions of one process; beyond it the session that was idle for longest ends.',
    }),
    maxPerCaller: integer({
      default: 1_000,
      min: 1,
      max: 1_000_000,
      description: 'The most sessions of one caller in a process, where callers are told apart (`auth`).',
    }),
    resumeWindow: duration({
      default: '10m',
      description:
        'How long a call runs on whose client lost its connection; a client that comes back in time gets the answer.',
    }),
    clientTermination: flag({ default: true, description: 'Whether a client may end its session with DELETE.' }),
  }),
  mcp: group('The MCP endpoints.', {
    enabled: flag({
      default: true,
      description: 'Whether they are open at all.',
      oldNames: ['MCP_GATEWAY_ENABLED'],
    }),
    strictAccept: flag({
      default: false,
      description: 'Refuse requests whose `Accept` lacks one of the two media types the revision asks for.',
    }),
    versionNegotiation: oneOf(['lenient', 'strict'], {
      default: 'lenient',
      description: 'Whether an unknown revision in `initialize` is answered with the newest one or with an error.',
    }),
    invocation: flag({
      default: true,
      description: 'Whether tools may be called at all; false switches calls off for every server.',
      oldNames: ['LLMROUTER_ENABLE_MCP_TOOL_INVOCATION'],
    }),
    sse: flag({
      default: true,
      description: 'Whether the HTTP+SSE endpoints are open.',
      oldNames: ['MCP_SSE_TRANSPORT_ENABLED'],
    }),
    legacyMode: flag({
      default: false,
      description: 'Answer the HTTP+SSE endpoints as if they were not there, so that clients fall back to plain HTTP.',
      oldNames: ['MCP_SSE_LEGACY_MODE'],
    }),
  }),
  bridge: group('Questions a server asks its client in the middle of a call.', {
    roots: flag({ default: true, description: 'Let servers ask for the roots of a client that has them.' }),
    sampling: flag({ default: true, description: 'Let servers use the model of a client that offers it.' }),
    logging: flag({ default: true, description: "Pass servers' log messages on to clients that want them." }),
    parkTtl: duration({ default: '10m', description: 'How long a parked call waits for the answer to its question.' }),
    maxParked: integer({ default: 1000, min: 0, max: 100_000, description: 'The most parked calls in all.' }),
    maxParkedPerCaller: integer({
      default: 100,
      min: 0,
      max: 100_000,
      description: 'The most parked calls of a caller.',
    }),
    maxParkedPerServer: integer({
      default: 500,
      min: 0,
      max: 100_000,
      description: 'The most parked calls at a server.',
    }),
    maxTasks: integer({
      default: 10_000,
      min: 0,
      max: 1_000_000,
      description: 'The most calls that run as tasks of the gateway.',
    }),
    maxTasksPerCaller: integer({
      default: 1000,
      min: 0,
      max: 1_000_000,
      description: 'The most calls of a caller that run as tasks of the gateway.',
    }),
  }),
  policy: group('What needs a yes from a person first.', {
    approve: group('Calls the caller is asked to approve before they run.', {
      tools: list(toolPattern, {
        description: 'Names of tools, as the gateway lists them; `*` stands for any characters.',
      }),
      destructive: flag({ default: false, description: 'Every tool that declares `destructiveHint`.' }),
    }),
  }),
  state: group('Where state is kept that must outlive a process; embedded in `data` unless said otherwise.', {
    db: urlField(
      ['postgres:', 'postgresql:'],
      'URL',
      'write a postgres:// URL, or leave the key out for the embedded database',
      { description: 'A PostgreSQL database, for several replicas.' },
    ),
    bus: urlField(['redis:', 'rediss:'], 'URL', 'write a redis:// or rediss:// URL, or leave the key out', {
      description: 'A Redis or Valkey server, for several replicas.',
    }),
    keys: list(
      secret({
        description: 'One key.',
        pattern: /^[\x21-\x7e]{32,}$/,
        what: 'is not a key',
        fix: 'write at least 32 visible characters, such as the output of: openssl rand -base64 32',
      }),
      { description: 'Keys of the sealed values, the same on every replica: the first seals, each of them opens.' },
    ),
    retention: group('How long records are kept that nothing else ends.', {
      auditDays: integer({
        default: 365,
        min: 0,
        max: 36_500,
        description: 'Days an audit record is kept; 0 for ever.',
      }),
      deadDeliveryDays: integer({
        default: 30,
        min: 0,
        max: 36_500,
        description: 'Days a webhook is kept that could not be delivered; 0 for ever.',
      }),
    }),
  }),
  explainFailures: oneOf(['auto', 'always', 'never'], {
    default: 'auto',
    description:
      'Whether callers read the URL of a failed server, its answer, or the output of its process; `auto` is while `auth` ' +
      'is off.',
  }),
  log: group('The log, on stderr.', {
    level: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
      default: 'info',
      description: 'The least severe level that is written; calls are `info` in JSON and `debug` in text.',
    }),
    format: oneOf(['auto', 'text', 'json'], {
      default: 'auto',
      description: 'Lines for people or for programs; `auto` is text on a terminal.',
    }),
  }),
});

type Written = Infer<typeof SCHEMA>;
type WrittenServer = Written['servers'][string];

/** One server, ready to use: its times are complete and a global `mcp.invocation: false` has been applied. */
export type ServerConfig = Omit<WrittenServer, 'timeouts' | 'envFile'> & {
  readonly timeouts: { readonly connect: number; readonly call: number; readonly callMax: number };
};

/** One agent, ready to use. */
export type AgentConfig = Omit<Written['agents'][string], 'timeouts'> & Pick<ServerConfig, 'timeouts'>;

/** The configuration, ready to use: durations in milliseconds, sizes in bytes, paths absolute, names in lower case. */
export type Config = Omit<Written, 'servers' | 'agents' | 'timeouts'> & {
  /** `connectCommand` is the time of servers that are processes; it follows `connect` where that is written. */
  readonly timeouts: Written['timeouts'] & { readonly connect: number; readonly connectCommand: number };
  readonly servers: Readonly<Record<string, ServerConfig>>;
  readonly agents: Readonly<Record<string, AgentConfig>>;
};

/** As read from the table, before the pieces that depend on each other are put together. */
export type WrittenConfig = Written;

export { HEADER_NAME };
