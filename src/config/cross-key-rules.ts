import { accessSync, constants, readFileSync } from 'node:fs';
import { assessToken, TOKEN_FIX } from '../identity/token-strength.js';
import { formatListen, isLoopback, isPem, PEM_FIX } from './address-fields.js';
import { identifiesCallers } from './auth-rules.js';
import type { EnvFileProblem } from './env-file.js';
import { formatDuration } from './field.js';
import { checkConditions } from './policy-rules.js';
import { type Origin, type Problems, show } from './problem.js';
import { checkReplicas } from './replica-rules.js';
import type { Config, WrittenConfig } from './schema.js';
import { checkUpstreamAuth } from './upstream-auth-rules.js';
import { HEADER_NAME } from './upstream-auth-schema.js';
import { checkLogin, type LoginRule } from './upstream-login-rules.js';
import { join, type Reading } from './validate.js';
import { checkViews, RESERVED_SERVERS, serverBesideViews } from './view-rules.js';

type WrittenServer = WrittenConfig['servers'][string];
type WrittenAgent = WrittenConfig['agents'][string];
type CallerToken = WrittenConfig['auth']['tokens'][number];

/**
 * The paths of the gateway itself below /a2a, which no agent can have as a name. A test compares them with the routes.
 */
export const RESERVED_AGENTS: ReadonlySet<string> = new Set([
  ...['agent', 'agents', 'extendedagentcard', 'message', 'push', 'rpc', 'tasks', 'v1'],
]);

/** The input of the rules: the whole file, or the configuration that an entry joins. */
export type ConfigWithTimeouts = Omit<WrittenConfig, 'timeouts'> & Pick<Config, 'timeouts'>;

/**
 * Rules over several keys. They also run if a key could not be read, so that all problems are reported at once;
 * required keys may be missing in that case.
 */
export class CrossKeyRules {
  readonly #problems: Problems;

  constructor(
    private readonly config: ConfigWithTimeouts,
    private readonly reading: Reading,
  ) {
    this.#problems = reading.problems;
  }

  /** The position of a key, or of the nearest parent key in the file. */
  private at(key: string): Origin | undefined {
    for (let path = key; ; path = path.slice(0, Math.max(path.lastIndexOf('.'), path.lastIndexOf('[')))) {
      const origin = this.reading.origins.get(path);
      if (origin !== undefined || !/[.[]/.test(path)) return origin;
    }
  }

  exposure(): void {
    const { listen, auth, grpc } = this.config;
    if (identifiesCallers(auth)) return;
    for (const [key, address] of [['listen', listen] as const, ['grpc.listen', grpc.listen] as const]) {
      if (address === undefined || isLoopback(address.host)) continue;
      this.#problems.error(
        'exposed',
        key,
        `${show(formatListen(address))} can be reached from other machines, and without auth everyone there can call the gateway`,
        'add auth: { tokens: [{ name: ada, token: … }] } or another way of docs/authentication.md, or listen on 127.0.0.1',
        this.at(key),
      );
    }
  }

  listenerTls(): void {
    const { cert, key, clientCa } = this.config.tls;
    for (const [missing, given] of [
      ['key', cert],
      ['cert', key ?? clientCa],
    ] as const) {
      if (given === undefined || this.config.tls[missing] !== undefined) continue;
      const fix = `add tls.${missing}, or remove tls`;
      this.#problems.error(
        'required',
        `tls.${missing}`,
        `is missing; TLS needs it in addition to ${show(given)}`,
        fix,
        this.at('tls'),
      );
    }
    for (const part of ['cert', 'key', 'clientCa'] as const) {
      const file = this.config.tls[part];
      if (file !== undefined) this.readable(file, `tls.${part}`);
    }
  }

  private readable(file: string, key: string): void {
    try {
      accessSync(file, constants.R_OK);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const message = `${show(file)} cannot be read (${code ?? 'unknown'})`;
      this.#problems.error('file', key, message, 'correct the path, or let this user read the file', this.at(key));
    }
  }

  /** Plain HTTP exposes tokens to the network. */
  clearText(): void {
    const { listen, tls, publicUrl, auth } = this.config;
    if (isLoopback(listen.host) || !identifiesCallers(auth)) return;
    if (tls.cert !== undefined || publicUrl?.toLowerCase().startsWith('https:')) return;
    this.#problems.warn(
      'clear',
      'listen',
      `on ${show(formatListen(listen))} tokens travel unencrypted: tls is not set, and publicUrl is not an https:// URL`,
      'add tls: { cert: …, key: … }; behind a proxy that terminates TLS set publicUrl: https://…',
      this.at('listen'),
    );
  }

  tokens(): void {
    const { auth } = this.config;
    const { tokens } = auth;
    const unreadable = this.#problems.errors.some(({ key }) => key.startsWith('auth'));
    // Other keys below `auth` may be written with their defaults. A list with a default counts as written.
    const others = [...this.reading.origins.keys()].some((key) =>
      /^auth\.(?!tokens|builtin\.login\.scopes$)/.test(key),
    );
    if (!identifiesCallers(auth) && this.reading.origins.has('auth') && !others && !unreadable) {
      const fix =
        'add a token, keys: true, an issuer in jwt or certificates.subject, or remove auth to leave the gateway open to this machine';
      this.#problems.error(
        'empty',
        'auth.tokens',
        'auth has no tokens and no other way to identify callers, so nobody could call',
        fix,
        this.at('auth.tokens'),
      );
    }
    const names = new Map<string, number>();
    const secrets = new Map<string, number>();
    for (const [index, { name, token }] of (tokens as readonly Partial<CallerToken>[]).entries()) {
      const key = `auth.tokens[${index}]`;
      const whose = name === undefined ? 'the token' : `the token of ${show(name)}`;
      this.unique(names, name, index, `${key}.name`, `${show(name)} is also the name of another caller`);
      this.unique(secrets, token, index, `${key}.token`, `${whose} is also the token of another caller`);
      for (const finding of token === undefined ? [] : assessToken(token)) {
        const message = `${whose} ${finding.message}`;
        const at = this.at(`${key}.token`);
        if (finding.severity === 'error') this.#problems.error('token', `${key}.token`, message, TOKEN_FIX, at);
        else this.#problems.warn('token', `${key}.token`, message, TOKEN_FIX, at);
      }
    }
  }

  private unique(
    seen: Map<string, number>,
    value: string | undefined,
    index: number,
    key: string,
    message: string,
  ): void {
    if (value === undefined) return;
    const before = seen.get(value);
    if (before === undefined) seen.set(value, index);
    else this.#problems.error('duplicate', key, message, `change it here or in auth.tokens[${before}]`, this.at(key));
  }

  /** C-15: with cookies and any origin, every web page could act with the rights of the user. */
  cors(): void {
    const { origins, credentials } = this.config.cors;
    if (!credentials || !origins.includes('*')) return;
    const fix = 'name the origins, or set cors.credentials: false';
    const message = 'true is not allowed with the origin "*"';
    this.#problems.error('conflict', 'cors.credentials', message, fix, this.at('cors.credentials'));
  }

  conditions(): void {
    checkConditions(this.config as WrittenConfig, this.#problems, (key) => this.at(key));
  }

  views(): void {
    checkViews({ config: this.config, problems: this.#problems, at: (key) => this.at(key) });
  }

  /** For entries added at run time; in a file the check of the view reports the conflict. */
  serverBesideViews(name: string): void {
    serverBesideViews(name, { config: this.config, problems: this.#problems, at: (key) => this.at(key) });
  }

  times(key: string, { call, callMax }: { call?: number; callMax?: number }): void {
    if (call === undefined || callMax === undefined || callMax >= call) return;
    const message = `${formatDuration(callMax)} is shorter than ${key}.call, ${formatDuration(call)}`;
    this.#problems.error('range', `${key}.callMax`, message, 'raise callMax or lower call', this.at(`${key}.callMax`));
  }

  anyUpstream(): void {
    const { servers, agents } = this.config;
    if (Object.keys(servers).length > 0 || Object.keys(agents).length > 0) return;
    const fix = 'add servers: { name: { url: … } } or servers: { name: { command: … } }';
    this.#problems.warn('empty', 'servers', 'there are no servers and no agents', fix);
  }

  server(name: string, server: WrittenServer): void {
    const key = join('servers', name);
    const isWritten = (path: string): boolean => this.reading.origins.has(path);
    checkReplicas({ key, server, problems: this.#problems, at: (path) => this.at(path), isWritten });
    this.serverName(name, key);
    this.serverKind(server, key);
    this.headers(server, key);
    this.auth(server, key);
    this.tls(server, key);
    this.tools(server, join(key, 'tools'));
    this.login(server, key);
  }

  /** For entries added at run time; in a file the check of the agent reports the conflict. */
  serverBesideAgents(name: string): void {
    const agent = this.config.agents[name];
    if (!agent || !hasTools(agent)) return;
    const key = join('servers', name);
    const message = `${show(name)} is also the name of an agent, and both offer tools`;
    this.#problems.error('name', key, message, 'give the server another name', this.at(key));
  }

  private serverName(name: string, key: string): void {
    const taken = RESERVED_SERVERS.get(name);
    if (taken !== undefined) {
      const message = `${show(name)} is taken: ${taken} is an endpoint of the gateway`;
      this.#problems.error('name', key, message, `rename it, for example to ${name}-server`, this.at(key));
    }
    if (this.config.naming.separator === '-' && name.includes('-')) {
      const message = `${show(name)} contains the separator "-", so its tool names would be ambiguous`;
      this.#problems.error('name', key, message, 'rename it, or set naming.separator: "__"', this.at(key));
    }
  }

  private serverKind(server: WrittenServer, key: string): void {
    const { url, command, openapi } = server;
    const written = (part: string): boolean => this.reading.origins.has(join(key, part));
    const unreadable = this.#problems.errors.some((problem) => problem.key === key && problem.code === 'type');
    if (unreadable) return;
    if (!['url', 'command', 'openapi', 'replicas'].some(written)) {
      const message = 'has neither url nor command nor openapi';
      this.#problems.error('required', key, message, 'give one of them', this.at(key));
    } else if (written('command') && (written('url') || written('openapi'))) {
      const message = `has both a ${written('url') ? 'url' : 'document (openapi)'} and a command`;
      this.#problems.error('conflict', key, message, 'remove one of them', this.at(join(key, 'command')));
    }
    if (written('openapi') && written('replicas')) {
      const message = 'has both a document (openapi) and replicas';
      this.#problems.error('conflict', key, message, 'remove one of them', this.at(join(key, 'replicas')));
    }
    if (openapi !== undefined && url === undefined && written('auth')) {
      const fix = 'give the base URL of the API as url';
      this.#problems.error(
        'required',
        join(key, 'auth'),
        'needs a url, which says where the credential goes',
        fix,
        this.at(join(key, 'auth')),
      );
    }
    const overHttp = [
      'replicas',
      'objective',
      'headers',
      'auth',
      'forwardHeaders',
      'proxy',
      'tls',
      ...(server.transport === 'auto' ? [] : ['transport']),
    ];
    const ofPrograms = ['args', 'env', 'envFile', 'cwd'];
    const ofMcp = openapi === undefined ? [] : ['transport', 'revision', 'pool'];
    const useless = command === undefined ? [...ofPrograms, ...ofMcp] : overHttp;
    const kind = command !== undefined ? 'command' : openapi !== undefined ? 'document (openapi)' : 'url';
    const known = url !== undefined || command !== undefined || openapi !== undefined;
    for (const part of known ? useless.filter(written) : []) {
      const message = `has no effect on a server with a ${kind}`;
      this.#problems.warn('conflict', join(key, part), message, 'remove it', this.at(join(key, part)));
    }
    if (server.transport === 'sse' && command === undefined) {
      const message = '"sse" is the deprecated HTTP+SSE transport';
      const fix = 'use the Streamable HTTP endpoint if the server has one, usually /mcp, with transport: http';
      this.#problems.warn('deprecated', join(key, 'transport'), message, fix, this.at(join(key, 'transport')));
    }
  }

  agent(name: string, agent: WrittenAgent): void {
    const key = join('agents', name);
    this.agentName(name, agent, key);
    this.agentKind(agent, key);
    this.headers(agent, key);
    this.auth(agent, key);
    this.tls(agent, key);
    this.login(agent, key);
  }

  private login(entry: LoginRule['entry'], key: string): void {
    const { config } = this;
    const isWritten = (name: string): boolean => this.reading.origins.has(name);
    checkLogin({ key, entry, config, problems: this.#problems, at: (name) => this.at(name), isWritten });
  }

  private agentName(name: string, agent: WrittenAgent, key: string): void {
    if (RESERVED_AGENTS.has(name.toLowerCase())) {
      const message = `${show(name)} is taken: /a2a/${name} is an endpoint of the gateway`;
      this.#problems.error('name', key, message, `rename it, for example to ${name}-agent`, this.at(key));
    }
    if (!hasTools(agent)) return;
    if (this.config.servers[name]) {
      const message = `${show(name)} is also the name of a server, and both offer tools`;
      this.#problems.error('name', key, message, 'rename one of them, or set mcp: false here', this.at(key));
    }
    this.serverName(name, key);
  }

  private agentKind(agent: WrittenAgent, key: string): void {
    const written = (part: string): boolean => this.reading.origins.has(join(key, part));
    if (this.#problems.errors.some((problem) => problem.key === key && problem.code === 'type')) return;
    if (!written('url') && !written('tools')) {
      this.#problems.error('required', key, 'has neither url nor tools', 'give one of them', this.at(key));
    } else if (written('url') && written('tools')) {
      const message = 'has both a url and tools';
      this.#problems.error('conflict', key, message, 'remove one of them', this.at(join(key, 'tools')));
    }
    const remote = [
      'version',
      'binding',
      'headers',
      'auth',
      'forwardHeaders',
      'signatures',
      'keys',
      'hosts',
      'proxy',
      'tls',
    ];
    const useless = agent.url === undefined ? remote : [];
    for (const part of useless.filter(written)) {
      const message = 'has no effect on an agent made of tools';
      this.#problems.warn('conflict', join(key, part), message, 'remove it', this.at(join(key, part)));
    }
  }

  private tools({ tools: { allow, deny, rename } }: WrittenServer, key: string): void {
    for (const [index, pattern] of deny.entries()) {
      if (!allow.includes(pattern)) continue;
      const at = `${key}.deny[${index}]`;
      const message = `${show(pattern)} is both allowed and denied, so it is not offered`;
      this.#problems.warn('conflict', at, message, 'remove it from one of them', this.at(at));
    }
    const taken = new Map<string, string>();
    for (const [own, name] of Object.entries(rename)) {
      const at = join(join(key, 'rename'), own);
      const other = taken.get(name);
      if (other !== undefined) {
        const message = `${show(name)} is also the new name of ${show(other)}`;
        this.#problems.error('duplicate', at, message, 'give each tool a different name', this.at(at));
      } else taken.set(name, own);
    }
  }

  private headers(server: Pick<WrittenServer, 'headers'>, key: string): void {
    for (const name of Object.keys(server.headers)) {
      if (HEADER_NAME.test(name)) continue;
      const at = join(join(key, 'headers'), name);
      const fix = 'write letters, digits and dashes, such as X-API-Key';
      this.#problems.error('type', at, `${show(name)} is not the name of a header`, fix, this.at(at));
    }
  }

  private auth(upstream: Parameters<typeof checkUpstreamAuth>[0], key: string): void {
    checkUpstreamAuth(upstream, key, {
      problems: this.#problems,
      at: (path) => this.at(path),
      written: (path) => this.reading.origins.has(path),
    });
  }

  private tls({ url, tls, enabled }: Pick<WrittenServer, 'url' | 'tls' | 'enabled'>, key: string): void {
    const within = join(key, 'tls');
    if (url?.startsWith('http:') && this.reading.origins.has(within)) {
      const fix = 'write https:// in url, or remove tls';
      this.#problems.warn('conflict', within, 'has no effect on an http:// url', fix, this.at(within));
    }
    if ((tls.cert === undefined) !== (tls.key === undefined)) {
      const [there, missing] = tls.cert === undefined ? ['key', 'cert'] : ['cert', 'key'];
      const message = `${missing} is missing; ${there} needs it`;
      this.#problems.error('required', within, message, `add ${missing}`, this.at(join(within, there!)));
    }
    for (const part of ['ca', 'cert', 'key'] as const) {
      const value = tls[part];
      if (value === undefined || isPem(value)) continue;
      const problem = this.pemFile(value);
      const path = join(within, part);
      const report = enabled ? this.#problems.error : this.#problems.warn;
      if (problem) report.call(this.#problems, 'file', path, `${show(value)} ${problem}`, PEM_FIX, this.at(path));
    }
  }

  envFile(problem: EnvFileProblem, server: string, enabled: boolean): void {
    const path = join(join('servers', server), 'envFile');
    const report = enabled ? this.#problems.error : this.#problems.warn;
    report.call(this.#problems, 'file', path, problem.message, 'correct the path', this.at(path));
  }

  private pemFile(file: string): string | undefined {
    try {
      return isPem(readFileSync(file, 'latin1')) ? undefined : 'contains no PEM text';
    } catch (error) {
      return `cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})`;
    }
  }
}

/** Whether the skills of an agent are also tools of the gateway; an agent made of tools adds no tools. */
const hasTools = ({ mcp, tools }: Pick<WrittenAgent, 'mcp' | 'tools'>): boolean => mcp && tools.length === 0;
