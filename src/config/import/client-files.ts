import path from 'node:path';
import { inputVariable } from '../expand-variables.js';
import { adaptRoot, plainName } from '../keys-of-other-programs.js';
import { fromValue, type Raw, type RawMap } from '../parsed-file.js';
import { Problems } from '../problem.js';
import { type FieldNote, type ImportedEntry, isMap, type Json, type JsonMap, mapOf, Notes, textOf } from './entries.js';

/** A map of servers in a file of an MCP client or of LiteLLM. */
export interface ServerMap {
  readonly container: 'servers' | 'mcpServers' | 'mcp_servers';
  /** The path of the map in the file, for the report. */
  readonly at: string;
  readonly servers: JsonMap;
  /** VS Code's `inputs`. */
  readonly inputs?: Json;
  /** The folder that the client takes for its workspace. */
  readonly workspace: string;
}

/** Translates the servers of Claude, Cursor, VS Code, Windsurf and LiteLLM in the way of `--config`, with a report. */
export function importServers(map: ServerMap): ImportedEntry[] {
  return Object.entries(map.servers).map(([name, value]) => importServer(map, name, value));
}

/** Keys of other programs with another name here. */
const RENAMED: Readonly<Record<string, string>> = {
  serverUrl: 'url',
  httpUrl: 'url',
  spec_path: 'openapi',
  disabled: 'enabled',
  type: 'transport',
  static_headers: 'headers',
  auth_type: 'headers',
  auth_value: 'headers',
  authentication_token: 'headers',
  allowed_tools: 'tools.allow',
  includeTools: 'tools.allow',
  disallowed_tools: 'tools.deny',
  excludeTools: 'tools.deny',
  disabledTools: 'tools.deny',
};

const OAUTH = 'write auth: { … } for this server, see docs/upstream-credentials.md';
const APPROVAL = 'write policy.approve to choose the tools that need approval';
const GROUPS = 'write policy.rules to choose the callers of this server';

/** Fields that a person has to write by hand in the form of Parley. */
const MANUAL: Readonly<Record<string, string>> = {
  timeout: 'write timeouts: { call: 60s } with a unit',
  alwaysAllow: APPROVAL,
  autoApprove: APPROVAL,
  trust: APPROVAL,
  extra_headers: 'name the headers to send on in forwardHeaders: { x-tenant: x-tenant }',
  auth: OAUTH,
  oauth: OAUTH,
  oauth2_flow: OAUTH,
  authorization_url: OAUTH,
  token_url: OAUTH,
  registration_url: OAUTH,
  client_id: OAUTH,
  client_secret: OAUTH,
  scopes: OAUTH,
  credentials: OAUTH,
  headersHelper: 'a program that makes headers is not run; write auth: { … } or headers',
  access_groups: GROUPS,
  mcp_access_groups: GROUPS,
  allow_all_keys: GROUPS,
  alias: 'rename the server to its alias, so that tool names have it as their prefix',
  max_concurrent_requests: 'write a limit in limits.rates',
};

function importServer(map: ServerMap, given: string, value: Json): ImportedEntry {
  const { container, at, inputs } = map;
  const field = `${at}.${given}`;
  const notes = new Notes();
  const problems = new Problems();
  const root = fromValue({ [container]: { [given]: value }, ...(inputs !== undefined && { inputs }) }, {}) as RawMap;
  const defaults = adaptRoot(root, problems);
  const node = root.entries.get('servers')?.node;
  const [entry] = node?.kind === 'map' ? [...node.entries] : [];
  const name = entry?.[0] ?? plainName(given);
  if (name !== given) notes.add(field, 'approximate', `the server is called ${name}`);
  const settings = mapOf(entry && plain(entry[1].node));
  for (const key of ['auth', 'oauth'])
    if (key in settings && map.container !== 'servers') {
      // Another program means something else by this key.
      delete settings[key];
      notes.add(`${field}.${key}`, 'manual', OAUTH);
    }
  if (!isMap(value)) notes.add(field, 'unsupported', 'it is not a map of settings');
  const ignored = new Set(problems.all.filter(({ code }) => code === 'foreign_key').map(({ key }) => key));
  const errors = problems.errors.map(({ key, message }) => [key, message] as const);
  for (const key of Object.keys(mapOf(value))) {
    const inner = `${field}.${key}`;
    const error = errors.find(([where]) => where.endsWith(`${given}.${key}`));
    if (error) notes.add(inner, 'unsupported', error[1]);
    else if (!ignored.has(`${container}.${given}.${key}`)) {
      const renamed = RENAMED[key];
      notes.add(inner, 'exact', renamed === undefined ? undefined : `becomes ${renamed}`);
    } else {
      const hint = MANUAL[key];
      notes.add(inner, hint === undefined ? 'unsupported' : 'manual', hint);
    }
  }
  if (settings['transport'] === 'sse')
    notes.add(
      `${field}.${'transport' in mapOf(value) ? 'transport' : 'type'}`,
      'approximate',
      'HTTP+SSE is deprecated; use transport: http if the server has a Streamable HTTP endpoint',
    );
  resolvePaths(settings, map.workspace, field, notes);
  const replaced = withReferences(settings, { defaults, workspace: map.workspace, field, notes });
  return { section: 'servers', name, settings: mapOf(replaced), notes: notes.all };
}

/** Relative paths start at the folder of the file; the new file may be in another folder. */
function resolvePaths(settings: JsonMap, folder: string, field: string, notes: Notes): void {
  for (const key of ['cwd', 'envFile', 'openapi']) {
    const written = textOf(settings[key]);
    if (written === undefined || written.startsWith('${') || path.isAbsolute(written)) continue;
    if (key === 'openapi' && /^https?:/i.test(written)) continue;
    settings[key] = path.resolve(folder, written);
    notes.add(`${field}.${key}`, 'approximate', 'the path became absolute');
  }
}

interface References {
  readonly defaults: ReadonlyMap<string, string>;
  readonly workspace: string;
  readonly field: string;
  readonly notes: Notes;
}

/** Replaces the variables of editors by values and variables that mean the same in any folder. */
function withReferences(value: Json, context: References, key = ''): Json {
  if (Array.isArray(value)) return value.map((item) => withReferences(item, context, key));
  if (isMap(value))
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, withReferences(item, context, key === '' ? name : key)]),
    );
  if (typeof value !== 'string') return value;
  const { defaults, workspace, field, notes } = context;
  return value.replace(/\$\{([^}:]+)(?::([^}]*))?\}/g, (whole, name: string, rest: string | undefined) => {
    if (name === 'env' && rest !== undefined) return `\${${rest}}`;
    if (name === 'input' && rest !== undefined) {
      const variable = inputVariable(rest);
      const preset = defaults.get(rest);
      notes.add(`${field}.${key}`, 'approximate', `the input ${rest} is the environment variable ${variable}`);
      return preset === undefined ? `\${${variable}}` : `\${${variable}:-${preset}}`;
    }
    if (name === 'workspaceFolder' || name === 'workspaceRoot' || name === 'workspaceFolderBasename') {
      notes.add(`${field}.${key}`, 'approximate', `\${${name}} became the path of the workspace`);
      return name === 'workspaceFolderBasename' ? path.basename(workspace) : workspace;
    }
    return whole;
  });
}

function plain(raw: Raw): Json {
  if (raw.kind === 'scalar') return raw.value;
  if (raw.kind === 'list') return raw.items.map(plain);
  return Object.fromEntries([...raw.entries].map(([name, { node }]) => [name, plain(node)]));
}

/** The notes for the keys of a file that hold no servers. */
export function otherKeys(root: JsonMap, known: readonly string[], note: string): FieldNote[] {
  return Object.keys(root)
    .filter((key) => !known.includes(key) && key !== '$schema')
    .map((field) => ({ field, verdict: 'unsupported', note }));
}
