import path from 'node:path';
import { plainName } from '../keys-of-other-programs.js';
import { type FieldNote, type ImportedEntry, isMap, type JsonMap, listOf, mapOf, Notes, textOf } from './entries.js';

/** Whether a file is a configuration of agentgateway. */
export function isAgentgateway(root: JsonMap): boolean {
  return Array.isArray(root['binds']) || Array.isArray(mapOf(root['mcp'])['targets']);
}

/** Policies of a route, and their counterpart in Parley. */
const POLICIES: Readonly<Record<string, string>> = {
  cors: 'write cors.origins and origins',
  mcpAuthorization: 'write policy.rules',
  authorization: 'write policy.rules',
  mcpAuthentication: 'write auth.jwt',
  jwtAuth: 'write auth.jwt',
  apiKey: 'write auth.tokens, or create keys with parley keys create',
  localRateLimit: 'write limits.rates',
  remoteRateLimit: 'write limits.rates',
  backendAuth: 'write auth: { … } for the server, see docs/upstream-credentials.md',
  backendTLS: 'write tls: { … } for the server',
  timeout: 'write timeouts: { call: 60s }',
  tls: 'write tls: { cert, key }',
};

/** The entries and notes of the whole file, and the folder at which relative paths start. */
interface Reading {
  readonly entries: ImportedEntry[];
  readonly others: Notes;
  readonly folder: string;
}

/** Reads `binds` with their listeners, routes and backends, and the short form `mcp.targets`. */
export function importAgentgateway(root: JsonMap, folder: string): { entries: ImportedEntry[]; notes: FieldNote[] } {
  const reading: Reading = { entries: [], others: new Notes(), folder };
  const { entries, others } = reading;
  for (const key of Object.keys(root)) {
    if (key === 'binds' || key === 'mcp') continue;
    others.add(key, POLICIES[key] === undefined ? 'unsupported' : 'manual', POLICIES[key]);
  }
  const short = mapOf(root['mcp']);
  readTargets(short, 'mcp', reading);
  policyNotes(short, 'mcp', others);
  if (short['port'] !== undefined) others.add('mcp.port', 'manual', `write listen: ${textOf(short['port'])}`);
  for (const [b, bind] of listOf(root['binds']).entries()) {
    const at = `binds[${b}]`;
    const port = textOf(mapOf(bind)['port']);
    if (port !== undefined) others.add(`${at}.port`, 'manual', `write listen: ${port}`);
    for (const [l, listener] of listOf(mapOf(bind)['listeners']).entries()) {
      policyNotes(mapOf(listener), `${at}.listeners[${l}]`, others);
      for (const [r, route] of listOf(mapOf(listener)['routes']).entries())
        readRoute(mapOf(route), `${at}.listeners[${l}].routes[${r}]`, reading);
    }
  }
  return { entries, notes: others.all };
}

function readRoute(route: JsonMap, at: string, reading: Reading): void {
  const { entries, others } = reading;
  policyNotes(route, at, others);
  for (const key of ['matches', 'hostnames'])
    if (route[key] !== undefined)
      others.add(`${at}.${key}`, 'unsupported', 'every server is at /mcp and at /mcp/<server>');
  const agents = mapOf(route['policies'])['a2a'] !== undefined;
  for (const [i, backend] of listOf(route['backends']).entries()) {
    const where = `${at}.backends[${i}]`;
    const target = mapOf(backend);
    if (isMap(target['mcp'])) readTargets(target['mcp'], `${where}.mcp`, reading);
    else if (agents && target['host'] !== undefined) entries.push(agentOf(target, where, route));
    else others.add(where, 'unsupported', 'it is neither an MCP server nor an A2A agent');
  }
}

function agentOf(target: JsonMap, at: string, route: JsonMap): ImportedEntry {
  const notes = new Notes();
  const host = textOf(target['host']) ?? '';
  notes.add(`${at}.host`, 'exact', 'becomes url');
  const named = textOf(route['name']) ?? textOf(target['name']);
  const name = plainName(named ?? host);
  if (named === undefined) notes.add(at, 'approximate', `the agent is called ${name}`);
  return { section: 'agents', name, settings: { url: urlOf(host) }, notes: notes.all };
}

const urlOf = (host: string): string => (/^https?:\/\//.test(host) ? host : `http://${host}`);

function policyNotes(part: JsonMap, at: string, notes: Notes): void {
  for (const key of Object.keys(mapOf(part['policies']))) {
    if (key === 'a2a') notes.add(`${at}.policies.a2a`, 'exact', 'the backends become agents');
    else notes.add(`${at}.policies.${key}`, POLICIES[key] === undefined ? 'unsupported' : 'manual', POLICIES[key]);
  }
}

function readTargets(mcp: JsonMap, at: string, reading: Reading): void {
  const { entries, others } = reading;
  for (const key of Object.keys(mcp))
    if (!['targets', 'port', 'policies'].includes(key))
      others.add(
        `${at}.${key}`,
        'unsupported',
        key === 'statefulMode' ? 'the revision of each client decides whether the gateway keeps a session' : undefined,
      );
  for (const [i, target] of listOf(mcp['targets']).entries()) {
    const entry = targetOf(mapOf(target), `${at}.targets[${i}]`, reading);
    if (entry) entries.push(entry);
  }
}

function targetOf(target: JsonMap, at: string, { others, folder }: Reading): ImportedEntry | undefined {
  const notes = new Notes();
  const given = textOf(target['name']) ?? `server-${at.replace(/\D+/g, '-').replace(/^-|-$/g, '')}`;
  const name = plainName(given);
  notes.add(`${at}.name`, name === given ? 'exact' : 'approximate', name === given ? undefined : `is called ${name}`);
  const settings: JsonMap = {};
  for (const [key, value] of Object.entries(target)) {
    const where = `${at}.${key}`;
    if (key === 'name') continue;
    if (key === 'stdio') program(mapOf(value), where, settings, notes);
    else if (key === 'mcp' || key === 'sse') remote(key, mapOf(value), where, settings, notes);
    else if (key === 'openapi') httpApi(mapOf(value), where, settings, notes, folder);
    else if (key === 'policies') policyNotes(target, at, notes);
    else notes.add(where, 'unsupported');
  }
  if (Object.keys(settings).length > 0) return { section: 'servers', name, settings, notes: notes.all };
  for (const { field, verdict, note } of notes.all) if (verdict !== 'exact') others.add(field, verdict, note);
  return undefined;
}

function program(stdio: JsonMap, at: string, settings: JsonMap, notes: Notes): void {
  for (const [key, value] of Object.entries(stdio)) {
    const ours = { cmd: 'command', args: 'args', env: 'env' }[key];
    if (ours !== undefined) settings[ours] = value;
    if (ours !== undefined) notes.add(`${at}.${key}`, 'exact', key === 'cmd' ? 'becomes command' : undefined);
    else if (key === 'clear_env' || key === 'clearEnv')
      notes.add(`${at}.${key}`, 'approximate', 'a program gets only a few variables of the gateway and those of env');
    else notes.add(`${at}.${key}`, 'unsupported');
  }
}

function remote(kind: 'mcp' | 'sse', backend: JsonMap, at: string, settings: JsonMap, notes: Notes): void {
  const url = addressOf(backend);
  if (url === undefined) {
    notes.add(at, 'unsupported', 'it names no host');
    return;
  }
  settings['url'] = url;
  addressNotes(backend, at, notes);
  settings['transport'] = kind === 'sse' ? 'sse' : 'http';
  if (kind === 'sse') notes.add(at, 'approximate', 'HTTP+SSE is deprecated; use transport: http if the server has it');
}

/** An HTTP API with an OpenAPI document, which is in a file, at a URL, or inline. */
function httpApi(api: JsonMap, at: string, settings: JsonMap, notes: Notes, folder: string): void {
  const { schema, ...backend } = api;
  const [file, fetched] = ['file', 'url'].map((key) => textOf(mapOf(schema)[key]));
  if (file !== undefined) {
    settings['openapi'] = path.resolve(folder, file);
    if (path.isAbsolute(file)) notes.add(`${at}.schema.file`, 'exact', 'becomes openapi');
    else notes.add(`${at}.schema.file`, 'approximate', 'becomes openapi, a path from the folder of this file');
  } else if (fetched !== undefined) {
    settings['openapi'] = fetched;
    notes.add(`${at}.schema.url`, 'exact', 'becomes openapi');
  } else {
    notes.add(`${at}.schema`, 'manual', 'write the document to a file, and its path to openapi');
    return;
  }
  const url = addressOf(backend);
  if (url !== undefined) settings['url'] = url;
  addressNotes(backend, at, notes);
}

function addressOf(backend: JsonMap): string | undefined {
  const [host, port, rest = ''] = ['host', 'port', 'path'].map((key) => textOf(backend[key]));
  if (host === undefined) return undefined;
  const origin = port === undefined ? urlOf(host) : `${urlOf(host)}:${port}`;
  return rest === '' || rest.startsWith('/') ? `${origin}${rest}` : `${origin}/${rest}`;
}

function addressNotes(backend: JsonMap, at: string, notes: Notes): void {
  for (const key of Object.keys(backend))
    notes.add(
      `${at}.${key}`,
      ['host', 'port', 'path'].includes(key) ? 'exact' : 'unsupported',
      key === 'host' ? 'becomes url' : undefined,
    );
}
