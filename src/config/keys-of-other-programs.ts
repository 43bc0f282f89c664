import { emptyMap, type Raw, type RawEntry, type RawMap, type RawScalar, scalar } from './parsed-file.js';
import { nearest, type Origin, type Problems, show } from './problem.js';
import { SCHEMA } from './schema.js';
import { join } from './validate.js';

/**
 * Configuration files of other programs: Claude and Cursor (`mcpServers`), VS Code (`servers` and
 * `inputs`), LiteLLM (`mcp_servers`). This file translates their keys into ours, and drops keys without a counterpart
 * with a warning.
 */
const CONTAINERS = ['servers', 'mcpServers', 'mcp_servers'] as const;
type Container = (typeof CONTAINERS)[number];

const ROOT_KEYS = Object.keys(SCHEMA.fields);
const SERVER_KEYS = Object.keys(SCHEMA.fields.servers.item.fields);

/** Rewrites the top-level keys in place. Returns the default values of an editor's `inputs`. */
export function adaptRoot(root: RawMap, problems: Problems): Map<string, string> {
  const inputs = takeInputs(root);
  const foreign = inputs !== undefined || root.entries.has('mcpServers') || root.entries.has('mcp_servers');
  root.entries.delete('$schema');
  adaptServers(root, problems);
  for (const [name, { origin }] of foreign ? [...root.entries] : []) {
    // A key that is similar to a key of Parley is kept here and refused later, so that `auht` does not count as a key
    // of another program.
    if (ROOT_KEYS.includes(name) || nearest(name, ROOT_KEYS) !== undefined) continue;
    root.entries.delete(name);
    problems.warn(
      'foreign_key',
      name,
      'belongs to another program and is ignored',
      'remove it to avoid this warning',
      origin,
    );
  }
  return inputs ?? new Map();
}

/** Collects the servers of every container key under `servers`, by their own names. It is idempotent. */
export function adaptServers(root: RawMap, problems: Problems): void {
  const servers = new Map<string, RawEntry>();
  const written = new Map<string, string>();
  let origin: Origin | undefined;
  for (const container of CONTAINERS) {
    const entry = root.entries.get(container);
    if (entry === undefined) continue;
    if (entry.node.kind !== 'map') {
      const empty = entry.node.kind === 'scalar' && entry.node.value === null;
      if (container === 'servers' || !empty) continue;
    } else {
      for (const [name, server] of entry.node.entries) {
        const key = join(container, name);
        const ours = ownName(name, key, 'server', server.origin, problems);
        if (ours === undefined) continue;
        const other = written.get(ours);
        if (other !== undefined) {
          const message = `is the same name as ${other}: both become ${show(ours)}`;
          problems.error('duplicate', key, message, 'rename one of them', server.origin);
          continue;
        }
        written.set(ours, key);
        servers.set(ours, { ...server, node: adaptServer(server.node, key, container, problems) });
      }
    }
    origin ??= entry.origin;
    root.entries.delete(container);
  }
  if (origin === undefined) return;
  const node: RawMap = { kind: 'map', entries: servers, origin };
  if (!root.entries.has('servers')) root.entries.set('servers', { node, origin });
}

/** Normalizes the names of the agents. */
export function adaptAgents(root: RawMap, problems: Problems): void {
  const entry = root.entries.get('agents');
  if (entry?.node.kind !== 'map') return;
  const agents = new Map<string, RawEntry>();
  for (const [name, agent] of entry.node.entries) {
    const key = join('agents', name);
    const ours = ownName(name, key, 'agent', agent.origin, problems);
    if (ours === undefined) continue;
    if (agents.has(ours))
      problems.error(
        'duplicate',
        key,
        `becomes ${show(ours)}, which is the name of another agent`,
        'rename one of them',
        agent.origin,
      );
    agents.set(ours, agent);
  }
  root.entries.set('agents', { ...entry, node: { ...entry.node, entries: agents } });
}

/**
 * Two underscores separate the server's name from the tool's name. A server's name therefore contains no two
 * underscores in a row, and does not end with an underscore.
 */
const NAME = /^(?!.*__)[a-z0-9_-]*[a-z0-9-]$/;

/** The name of a server or agent in its allowed characters; empty if none of them is allowed. */
export function plainName(name: string): string {
  const lower = name.toLowerCase();
  if (NAME.test(lower)) return lower;
  return lower
    .replace(/[^a-z0-9_]+/g, '-')
    .replace(/_{2,}/g, '_')
    .replace(/^[-_]+|[-_]+$/g, '');
}

/** Names appear in tool names and paths, so they consist of letters, digits, dashes and single underscores. */
function ownName(
  name: string,
  key: string,
  what: 'server' | 'agent',
  origin: Origin,
  problems: Problems,
): string | undefined {
  const ours = plainName(name);
  if (ours === name.toLowerCase()) return ours;
  if (ours === '') {
    const fix = 'rename it with letters, digits, dashes and single underscores';
    problems.error(
      'name',
      key,
      `${show(name)} cannot be the name of ${what === 'agent' ? 'an agent' : 'a server'}`,
      fix,
      origin,
    );
    return undefined;
  }
  const fix = `rename it to ${ours} to avoid this warning`;
  const message = `a name may contain only letters, digits, dashes and single underscores: the ${what} is called ${ours} here`;
  problems.warn('name', key, message, fix, origin);
  return ours;
}

function adaptServer(node: Raw, key: string, container: Container, problems: Problems): Raw {
  if (node.kind !== 'map') return node;
  const entries = new Map(container === 'mcp_servers' ? (osEnviron(node) as RawMap).entries : node.entries);
  const take = (name: string): RawEntry | undefined => {
    const entry = entries.get(name);
    entries.delete(name);
    return entry;
  };

  for (const alias of ['serverUrl', 'httpUrl']) {
    const entry = take(alias);
    if (entry !== undefined && !entries.has('url')) entries.set('url', entry);
  }
  const spec = take('spec_path');
  if (spec !== undefined && !entries.has('openapi')) entries.set('openapi', spec);
  const disabled = take('disabled');
  if (disabled !== undefined && !entries.has('enabled')) entries.set('enabled', negated(disabled));
  const groups = take('mcp_access_groups') ?? take('access_groups');
  if (groups !== undefined && !entries.has('groups')) entries.set('groups', groups);
  adaptTransport(entries, take('type'), key, problems);
  adaptHeaders(entries, take, key, problems);
  adaptTools(entries, take, container === 'mcp_servers' ? key.slice('mcp_servers.'.length) : undefined);

  for (const [name, { origin, node: value }] of [...entries]) {
    // `auth: oauth` is a setting of another program.
    if (SERVER_KEYS.includes(name) && !(name === 'auth' && value.kind === 'scalar')) continue;
    const ignored = IGNORED[name];
    const near = ignored === undefined ? nearest(name, SERVER_KEYS) : undefined;
    // Under `servers`, a key that is similar to a key of Parley is kept here and refused later. Otherwise `invocaton:
    // false` would be ignored, and the tools would stay callable.
    if (near !== undefined && container === 'servers') continue;
    entries.delete(name);
    const fix = near === undefined ? (ignored ?? 'remove it to avoid this warning') : `did you mean ${near}?`;
    problems.warn('foreign_key', join(key, name), 'is not a key of Parley and is ignored', fix, origin);
  }
  return { ...node, entries };
}

/** Keys of other programs that people rely on; Parley warns when it ignores them. */
const IGNORED: Readonly<Record<string, string>> = {
  alwaysAllow: 'remove it; set policy.approve to choose the tools that need approval',
  autoApprove: 'remove it; set policy.approve to choose the tools that need approval',
  trust: 'remove it; set policy.approve to choose the tools that need approval',
  timeout: 'write timeouts: { call: 60s } with a unit',
  sandbox: 'do not rely on it: the command runs without a sandbox',
  sandboxEnabled: 'do not rely on it: the command runs without a sandbox',
  extra_headers: 'name the headers to send on in forwardHeaders: { x-tenant: x-tenant }',
  auth: 'write auth: { … } with the settings of Parley, or give the credentials in headers',
  oauth: 'write auth: { … } with the settings of Parley, or give the credentials in headers',
};

const STREAMABLE = new Set(['streamable-http', 'streamable_http', 'streamablehttp']);

function adaptTransport(
  entries: Map<string, RawEntry>,
  type: RawEntry | undefined,
  key: string,
  problems: Problems,
): void {
  const own = entries.get('transport');
  const entry = own ?? type;
  if (entry === undefined || entry.node.kind !== 'scalar') return;
  const { origin } = entry;
  const said = String(entry.node.value).toLowerCase();
  const set = (value: string): void => {
    entries.set('transport', { node: scalar(value, origin), origin });
  };
  if (said === 'stdio' || said === 'local') {
    entries.delete('transport');
    if (entries.has('url') && !entries.has('command')) {
      problems.error(
        'conflict',
        key,
        `${show(said)} needs a command, and the server has a url`,
        'give a command',
        origin,
      );
    }
  } else if (STREAMABLE.has(said)) {
    set('http');
  } else if (own === undefined) {
    // VS Code's `http` tries Streamable HTTP and falls back to HTTP+SSE, as `auto` does.
    if (said === 'http') set('auto');
    else if (said === 'sse') set('sse');
    else
      problems.error('type', join(key, 'type'), `${show(said)} is not a transport`, 'write stdio, http or sse', origin);
  }
}

/** LiteLLM has another name for fixed headers, and separate keys for credentials. */
function adaptHeaders(
  entries: Map<string, RawEntry>,
  take: (name: string) => RawEntry | undefined,
  key: string,
  problems: Problems,
): void {
  const added = new Map<string, RawEntry>();
  const fixed = take('static_headers');
  if (fixed?.node.kind === 'map') for (const [name, entry] of fixed.node.entries) added.set(name, entry);
  const kind = take('auth_type');
  const value = take('auth_value') ?? take('authentication_token');
  take('authentication_token');
  if (kind !== undefined && kind.node.kind === 'scalar' && kind.node.value !== null && kind.node.value !== 'none') {
    const header = AUTH_HEADERS[String(kind.node.value)];
    if (header === undefined) {
      const fix = 'give the credentials in headers';
      const message = `${show(kind.node.value)} is not supported and is ignored`;
      problems.warn('foreign_key', join(key, 'auth_type'), message, fix, kind.origin);
    } else if (value?.node.kind === 'scalar' && value.node.value !== null) {
      const [name, prefix] = header;
      const node: RawScalar = { ...value.node, value: `${prefix}${value.node.value}` };
      added.set(name, { node, origin: value.origin });
    }
  }
  if (added.size === 0) return;
  const current = entries.get('headers');
  const headers = current?.node.kind === 'map' ? current.node : emptyMap(kind?.origin ?? fixed?.origin);
  const merged: RawMap = { ...headers, entries: new Map([...added, ...headers.entries]) };
  entries.set('headers', { node: merged, origin: merged.origin });
}

/** The keys by which other programs select tools of a server, and our key for each. */
const CHOICES: Readonly<Record<string, 'allow' | 'deny'>> = {
  allowed_tools: 'allow',
  includeTools: 'allow',
  disallowed_tools: 'deny',
  excludeTools: 'deny',
  disabledTools: 'deny',
};

/** `prefix` is the server's name if tool names may have it as a prefix. */
function adaptTools(
  entries: Map<string, RawEntry>,
  take: (name: string) => RawEntry | undefined,
  prefix: string | undefined,
): void {
  const written = entries.get('tools');
  // Some programs name the key with the allowed tools `tools`.
  const all = written?.node.kind === 'list' ? { ...written, node: emptyMap(written.origin) } : written;
  const tools = new Map(all?.node.kind === 'map' ? all.node.entries : []);
  let origin = written?.origin;
  const add = (choice: string, entry: RawEntry): void => {
    const items = entry.node.kind === 'list' ? entry.node.items : [entry.node];
    const before = tools.get(choice)?.node;
    const named = items.flatMap((item) => (prefix === undefined ? [item] : [item, ...withoutPrefix(item, prefix)]));
    const list: Raw = {
      kind: 'list',
      items: [...(before?.kind === 'list' ? before.items : before ? [before] : []), ...named],
      origin: entry.origin,
    };
    tools.set(choice, { node: list, origin: entry.origin });
    origin ??= entry.origin;
  };
  if (written?.node.kind === 'list') add('allow', written);
  for (const [name, choice] of Object.entries(CHOICES)) {
    const entry = take(name);
    if (entry && !(entry.node.kind === 'scalar' && entry.node.value === null)) add(choice, entry);
  }
  if (origin && (tools.size > 0 || written?.node.kind === 'list'))
    entries.set('tools', { node: { kind: 'map', entries: tools, origin }, origin });
}

/** LiteLLM accepts tool names with and without the name of their server. */
function withoutPrefix(item: Raw, prefix: string): Raw[] {
  if (item.kind !== 'scalar' || typeof item.value !== 'string' || !item.value.startsWith(`${prefix}-`)) return [];
  return [{ ...item, value: item.value.slice(prefix.length + 1) }];
}

const AUTH_HEADERS: Readonly<Record<string, readonly [name: string, prefix: string]>> = {
  bearer_token: ['Authorization', 'Bearer '],
  basic: ['Authorization', 'Basic '],
  authorization: ['Authorization', ''],
  api_key: ['X-API-Key', ''],
};

function negated(entry: RawEntry): RawEntry {
  const { node } = entry;
  if (node.kind !== 'scalar' || typeof node.value !== 'boolean') return entry;
  return { ...entry, node: { ...node, value: !node.value } };
}

/** Turns LiteLLM's `os.environ/NAME` into `${NAME}`. */
function osEnviron(raw: Raw): Raw {
  if (raw.kind === 'scalar') {
    const name = typeof raw.value === 'string' ? /^os\.environ\/([A-Za-z_]\w*)$/.exec(raw.value)?.[1] : undefined;
    return name === undefined ? raw : { ...raw, value: `\${${name}}` };
  }
  if (raw.kind === 'list') return { ...raw, items: raw.items.map(osEnviron) };
  const entries = [...raw.entries].map(([name, entry]) => [name, { ...entry, node: osEnviron(entry.node) }] as const);
  return { ...raw, entries: new Map(entries) };
}

function takeInputs(root: RawMap): Map<string, string> | undefined {
  const entry = root.entries.get('inputs');
  if (entry === undefined) return undefined;
  root.entries.delete('inputs');
  const defaults = new Map<string, string>();
  for (const item of entry.node.kind === 'list' ? entry.node.items : []) {
    if (item.kind !== 'map') continue;
    const [id, value] = ['id', 'default'].map((name) => item.entries.get(name)?.node);
    if (id?.kind === 'scalar' && value?.kind === 'scalar' && value.value !== null) {
      defaults.set(String(id.value), String(value.value));
    }
  }
  return defaults;
}

/** Key paths of servers and agents that are switched off: missing keys there are no errors. */
export function switchedOff(root: RawMap): Set<string> {
  const off = new Set<string>();
  for (const container of ['servers', 'agents']) {
    const all = root.entries.get(container)?.node;
    if (all?.kind !== 'map') continue;
    for (const [name, { node }] of all.entries) {
      const enabled = node.kind === 'map' ? node.entries.get('enabled')?.node : undefined;
      if (enabled?.kind === 'scalar' && String(enabled.value) === 'false') off.add(join(container, name));
    }
  }
  return off;
}
