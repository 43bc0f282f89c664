import { plainName } from '../imports.js';
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

/** Reads `binds` with their listeners, routes and backends, and the short form `mcp.targets`. */
export function importAgentgateway(root: JsonMap): { entries: ImportedEntry[]; notes: FieldNote[] } {
  const entries: ImportedEntry[] = [];
  const others = new Notes();
  for (const key of Object.keys(root)) {
    if (key === 'binds' || key === 'mcp') continue;
    others.add(key, POLICIES[key] === undefined ? 'unsupported' : 'manual', POLICIES[key]);
  }
  const short = mapOf(root['mcp']);
  readTargets(short, 'mcp', entries, others);
  policyNotes(short, 'mcp', others);
  if (short['port'] !== undefined) others.add('mcp.port', 'manual', `write listen: ${textOf(short['port'])}`);
  for (const [b, bind] of listOf(root['binds']).entries()) {
    const at = `binds[${b}]`;
    const port = textOf(mapOf(bind)['port']);
    if (port !== undefined) others.add(`${at}.port`, 'manual', `write listen: ${port}`);
    for (const [l, listener] of listOf(mapOf(bind)['listeners']).entries()) {
      policyNotes(mapOf(listener), `${at}.listeners[${l}]`, others);
      for (const [r, route] of listOf(mapOf(listener)['routes']).entries())
        readRoute(mapOf(route), `${at}.listeners[${l}].routes[${r}]`, entries, others);
    }
  }
  return { entries, notes: others.all };
}

function readRoute(route: JsonMap, at: string, entries: ImportedEntry[], others: Notes): void {
  policyNotes(route, at, others);
  for (const key of ['matches', 'hostnames'])
    if (route[key] !== undefined)
      others.add(`${at}.${key}`, 'unsupported', 'every server is at /mcp and at /mcp/<server>');
  const agents = mapOf(route['policies'])['a2a'] !== undefined;
  for (const [i, backend] of listOf(route['backends']).entries()) {
    const where = `${at}.backends[${i}]`;
    const target = mapOf(backend);
    if (isMap(target['mcp'])) readTargets(target['mcp'], `${where}.mcp`, entries, others);
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

function readTargets(mcp: JsonMap, at: string, entries: ImportedEntry[], others: Notes): void {
  for (const key of Object.keys(mcp))
    if (!['targets', 'port', 'policies'].includes(key))
      others.add(
        `${at}.${key}`,
        'unsupported',
        key === 'statefulMode' ? 'sessions are kept as each client needs them' : undefined,
      );
  for (const [i, target] of listOf(mcp['targets']).entries()) {
    const entry = targetOf(mapOf(target), `${at}.targets[${i}]`, others);
    if (entry) entries.push(entry);
  }
}

function targetOf(target: JsonMap, at: string, others: Notes): ImportedEntry | undefined {
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
    else if (key === 'openapi') notes.add(where, 'unsupported', 'an OpenAPI document is not an MCP server');
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
  const [host, port, rest] = ['host', 'port', 'path'].map((key) => textOf(backend[key]));
  if (host === undefined) {
    notes.add(at, 'unsupported', 'it names no host');
    return;
  }
  settings['url'] =
    port === undefined
      ? urlOf(host)
      : `${urlOf(host)}:${port}${rest?.startsWith('/') === false ? '/' : ''}${rest ?? ''}`;
  for (const key of Object.keys(backend))
    notes.add(
      `${at}.${key}`,
      ['host', 'port', 'path'].includes(key) ? 'exact' : 'unsupported',
      key === 'host' ? 'becomes url' : undefined,
    );
  settings['transport'] = kind === 'sse' ? 'sse' : 'http';
  if (kind === 'sse') notes.add(at, 'approximate', 'HTTP+SSE is deprecated; use transport: http if the server has it');
}
