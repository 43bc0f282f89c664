import { a2a, grpc } from './a2a-schema.js';
import { addressRange, filePath, hostName, httpUrl, listenAddress, webOrigin } from './address-fields.js';
import { agent, toolPattern } from './agent-schema.js';
import { assess } from './assess-schema.js';
import { audit } from './audit-schema.js';
import { AUTH } from './auth-schema.js';
import { egress } from './egress-schema.js';
import { evaluators } from './evaluator-schema.js';
import { duration, flag, group, type Infer, list, map, oneOf } from './field.js';
import { limits } from './limits-schema.js';
import { bridge, mcp, session } from './mcp-schema.js';
import { pin } from './pin-schema.js';
import { plugins } from './plugin-schema.js';
import { policyRules } from './policy-schema.js';
import { reload } from './reload-schema.js';
import { ROUTING } from './routing-schema.js';
import { server } from './server-schema.js';
import { state } from './state-schema.js';
import { telemetry } from './telemetry-schema.js';
import { CONNECT_DESCRIPTION } from './upstream-schema.js';
import { views } from './view-schema.js';

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
  grpc,
  a2a,
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
  limits,
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
  session,
  mcp,
  bridge,
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
  state,
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
