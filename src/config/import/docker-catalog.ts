import { plainName } from '../keys-of-other-programs.js';
import {
  type ImportedEntry,
  isMap,
  type Json,
  type JsonMap,
  listOf,
  literal,
  mapOf,
  Notes,
  textOf,
  withReferences,
} from './entries.js';

/** Whether a file is a catalogue of Docker (`registry`), or one entry of it (`server.yaml`). */
export function isDockerCatalog(root: JsonMap): boolean {
  return isMap(root['registry']) || isEntry(root);
}

function isEntry(root: JsonMap): boolean {
  const kind = textOf(root['type']);
  return (
    (kind === 'server' || kind === 'remote' || kind === 'poci') &&
    (root['image'] !== undefined || isMap(root['remote']))
  );
}

/** Fields that describe a server for people. */
const DESCRIPTIONS = [
  ...['name', 'title', 'description', 'icon', 'readme', 'toolsUrl', 'source', 'upstream', 'metadata', 'meta', 'about'],
  ...['dateAdded', 'ref', 'tools', 'prompts', 'resources', 'policy'],
];

export function importDockerCatalog(root: JsonMap): ImportedEntry[] {
  if (!isMap(root['registry'])) return [importEntry(textOf(root['name']) ?? 'server', '', root)];
  return Object.entries(root['registry']).map(([name, entry]) => importEntry(name, `registry.${name}`, mapOf(entry)));
}

function importEntry(given: string, at: string, entry: JsonMap): ImportedEntry {
  const name = plainName(given.split('/').at(-1) ?? given);
  const notes = new Notes();
  const field = (key: string): string => (at === '' ? key : `${at}.${key}`);
  // `server.yaml` has the secrets and variables under `config`, and the command under `run`.
  const config = isMap(entry['config']) ? entry['config'] : {};
  const run = mapOf(entry['run']);
  const flat: JsonMap = {
    ...entry,
    ...pick(config, ['secrets', 'env']),
    ...pick(run, ['command', 'volumes', 'disableNetwork', 'allowHosts', 'user']),
  };
  const settings =
    textOf(entry['type']) === 'remote' || isMap(entry['remote']) || entry['sseEndpoint'] !== undefined
      ? remote(flat, field, notes)
      : container(name, flat, field, notes);
  for (const key of Object.keys(flat)) {
    if (DESCRIPTIONS.includes(key)) notes.add(field(key), 'unsupported', 'a description for people');
    else if (key === 'type') notes.add(field(key), textOf(flat[key]) === 'poci' ? 'unsupported' : 'exact');
    else if (key === 'oauth')
      notes.add(field(key), 'manual', 'write auth: { … } for this server, see docs/upstream-login.md');
    else if (key === 'allowHosts')
      notes.add(field(key), 'unsupported', 'the network of a container is not limited; use a network of Docker');
    else if (key === 'config' && Array.isArray(entry['config']))
      notes.add(field(key), 'manual', 'set the variables that the report names');
    else if (key === 'longLived') notes.add(field(key), 'exact', 'a program runs as long as the gateway needs it');
    else if (key === 'prefix')
      notes.add(field(key), 'manual', 'rename the server; its name is the prefix of its tools');
    else if (key === 'config' || key === 'run') continue;
    else if (!notes.all.some((note) => note.field === field(key))) notes.add(field(key), 'unsupported');
  }
  return { section: 'servers', name, settings, notes: notes.all };
}

function pick(from: JsonMap, keys: readonly string[]): JsonMap {
  return Object.fromEntries(keys.flatMap((key) => (from[key] === undefined ? [] : [[key, from[key]]])));
}

/**
 * A template such as `{{brave.api_key}}` or `{{filesystem.paths|volume|into}}`, or a variable such as `${BRAVE_KEY}`.
 */
const TEMPLATE = /\$*\{\{\s*([^}|]+?)\s*(\|[^}]*)?\}\}|\$\{(\w+)\}/g;
const VARIABLE = /^[A-Za-z_]\w*$/;

function variableOf(name: string): string {
  return name
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '');
}

/**
 * Replaces the templates of a text by environment variables, and adds a note for each. The text may refer to the
 * variables in `declared` as `${NAME}`; any other `${` is literal text.
 */
function filled(text: string, where: string, notes: Notes, declared: readonly string[] = []): string {
  return withReferences(text, TEMPLATE, ([, name = '', filter, own]) => {
    if (own !== undefined) return declared.includes(own) ? `\${${own}}` : undefined;
    const variable = variableOf(name);
    const also = filter === undefined ? '' : `; the filter ${filter} is not applied`;
    notes.add(where, 'approximate', `{{${name}}} is the environment variable ${variable}${also}`);
    return `\${${variable}}`;
  });
}

function container(name: string, entry: JsonMap, field: (key: string) => string, notes: Notes): JsonMap {
  const named = textOf(entry['image']) ?? '';
  const image = named.startsWith('-') ? '' : named;
  const args: string[] = ['run', '-i', '--rm', '--init'];
  const env: JsonMap = {};
  notes.add(
    field('image'),
    image === '' ? 'unsupported' : 'exact',
    image === '' ? 'it names no image' : 'becomes docker run',
  );
  if (entry['disableNetwork'] === true) args.push('--network', 'none');
  if (entry['disableNetwork'] !== undefined) notes.add(field('disableNetwork'), 'exact', 'becomes --network none');
  const user = textOf(entry['user']);
  if (user !== undefined) {
    args.push('--user', filled(user, field('user'), notes));
    notes.add(field('user'), 'exact', 'becomes --user');
  }
  for (const host of listOf(entry['extraHosts'])) args.push('--add-host', literal(textOf(host) ?? ''));
  if (entry['extraHosts'] !== undefined) notes.add(field('extraHosts'), 'exact', 'becomes --add-host');
  for (const [i, secret] of listOf(entry['secrets']).entries()) {
    const { env: variable, name: secretName } = mapOf(secret);
    const target = textOf(variable);
    if (target === undefined || !VARIABLE.test(target)) continue;
    args.push('-e', target);
    env[target] = `\${${target}}`;
    notes.add(
      field(`secrets[${i}]`),
      'approximate',
      `the secret ${textOf(secretName) ?? target} is the environment variable ${target}`,
    );
  }
  if (entry['secrets'] !== undefined)
    notes.add(field('secrets'), 'approximate', 'secrets come from environment variables');
  for (const [i, variable] of listOf(entry['env']).entries()) {
    const { name: target, value, example } = mapOf(variable);
    const key = textOf(target);
    if (key === undefined || !VARIABLE.test(key)) continue;
    args.push('-e', key);
    const written = textOf(value);
    if (written === undefined)
      notes.add(
        field(`env[${i}]`),
        'approximate',
        `set the environment variable ${key}${example === undefined ? '' : `, such as ${textOf(example)}`}`,
      );
    env[key] = written === undefined ? `\${${key}}` : filled(written, field(`env[${i}]`), notes);
  }
  if (entry['env'] !== undefined) notes.add(field('env'), 'exact', 'becomes env and -e');
  for (const [i, volume] of listOf(entry['volumes']).entries())
    args.push('-v', filled(textOf(volume) ?? '', field(`volumes[${i}]`), notes));
  if (entry['volumes'] !== undefined) notes.add(field('volumes'), 'exact', 'becomes -v');
  args.push(literal(image));
  for (const [i, word] of listOf(entry['command']).entries())
    args.push(filled(textOf(word) ?? '', field(`command[${i}]`), notes));
  if (entry['command'] !== undefined) notes.add(field('command'), 'exact');
  if (image === '' || textOf(entry['type']) === 'poci') {
    notes.add(field('type'), 'unsupported', `${name} has tools that are containers of their own`);
    return {};
  }
  return { command: 'docker', args, ...(Object.keys(env).length > 0 && { env }) };
}

function remote(entry: JsonMap, field: (key: string) => string, notes: Notes): JsonMap {
  const { url, transport_type: kind, headers } = mapOf(entry['remote']);
  const address = textOf(url) ?? textOf(entry['sseEndpoint']);
  if (address === undefined) {
    notes.add(field('remote'), 'unsupported', 'it names no URL');
    return {};
  }
  const sse = textOf(kind) === 'sse' || (url === undefined && entry['sseEndpoint'] !== undefined);
  notes.add(field('remote'), sse ? 'approximate' : 'exact', sse ? 'HTTP+SSE is deprecated' : 'becomes url');
  if (entry['sseEndpoint'] !== undefined) notes.add(field('sseEndpoint'), 'approximate', 'HTTP+SSE is deprecated');
  for (const [i, secret] of listOf(entry['secrets']).entries())
    notes.add(
      field(`secrets[${i}]`),
      'approximate',
      `set the environment variable ${textOf(mapOf(secret)['env']) ?? ''}`,
    );
  if (entry['secrets'] !== undefined)
    notes.add(field('secrets'), 'approximate', 'secrets come from environment variables');
  const declared = declaredVariables(entry);
  const written = Object.entries(mapOf(headers)).map(([header, value]): [string, Json] => [
    header,
    filled(textOf(value) ?? '', field('remote.headers'), notes, declared),
  ]);
  return {
    url: filled(address, field('remote'), notes),
    transport: sse ? 'sse' : 'http',
    ...(written.length > 0 && { headers: Object.fromEntries(written) }),
  };
}

/** The variables of the secrets, and those of the tokens that Docker gets by OAuth. */
function declaredVariables({ secrets, oauth }: JsonMap): string[] {
  const providers = isMap(oauth) ? listOf(oauth['providers']) : listOf(oauth);
  return [...listOf(secrets), ...providers].flatMap((each) => {
    const name = textOf(mapOf(each)['env']);
    return name !== undefined && VARIABLE.test(name) ? [name] : [];
  });
}
