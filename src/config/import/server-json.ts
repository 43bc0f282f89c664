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

/** Whether a file is a `server.json` of the MCP Registry, or an answer of its API. */
export function isServerJson(root: JsonMap): boolean {
  if (isMap(root['server'])) return isServerJson(root['server']);
  if (Array.isArray(root['servers'])) return root['servers'].some((each) => isServerJson(mapOf(each)));
  return typeof root['name'] === 'string' && (Array.isArray(root['packages']) || Array.isArray(root['remotes']));
}

export function importServerJson(root: JsonMap): ImportedEntry[] {
  if (Array.isArray(root['servers'])) return root['servers'].flatMap((each) => importServerJson(mapOf(each)));
  return [importServer(camel(isMap(root['server']) ? root['server'] : root) as JsonMap)];
}

/** Early versions of the format write `registry_type` for `registryType`. */
function camel(value: Json): Json {
  if (Array.isArray(value)) return value.map(camel);
  if (!isMap(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key.startsWith('_') ? key : key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      camel(item),
    ]),
  );
}

/** The programs that start a package of each registry, with their arguments before the package. */
const RUNTIMES: Readonly<Record<string, { command: string; args: readonly string[]; join: string }>> = {
  npm: { command: 'npx', args: ['-y'], join: '@' },
  pypi: { command: 'uvx', args: [], join: '@' },
  oci: { command: 'docker', args: ['run', '-i', '--rm', '--init'], join: ':' },
  nuget: { command: 'dnx', args: ['--yes'], join: '@' },
};

const KNOWN = ['name', 'packages', 'remotes'];

function importServer(server: JsonMap): ImportedEntry {
  const notes = new Notes();
  const full = textOf(server['name']) ?? 'server';
  const name = plainName(full.split('/').at(-1) ?? full);
  notes.add(
    'name',
    name === full ? 'exact' : 'approximate',
    name === full ? undefined : `the server is called ${name}`,
  );
  for (const key of Object.keys(server))
    if (!KNOWN.includes(key) && key !== '$schema') notes.add(key, 'unsupported', 'a description for people');
  const remotes = listOf(server['remotes']).map(mapOf);
  const packages = listOf(server['packages']).map(mapOf);
  const settings = chosen(name, remotes, packages, notes);
  return { section: 'servers', name, settings, notes: notes.all };
}

/** Chooses one of the forms of a server. A remote server is preferred, because it needs no installation. */
function chosen(name: string, remotes: readonly JsonMap[], packages: readonly JsonMap[], notes: Notes): JsonMap {
  const others = (from: number, list: readonly JsonMap[], key: string): void => {
    for (let i = from; i < list.length; i++)
      notes.add(`${key}[${i}]`, 'manual', 'another form of the same server; the first form was taken');
  };
  const [first] = remotes;
  if (first) {
    others(1, remotes, 'remotes');
    others(0, packages, 'packages');
    return remote(name, first, 'remotes[0]', notes);
  }
  for (const [i, each] of packages.entries()) {
    const settings = program(name, each, `packages[${i}]`, notes);
    if (settings === undefined) continue;
    others(i + 1, packages, 'packages');
    return settings;
  }
  return {};
}

function remote(name: string, { type, url, headers, variables }: JsonMap, at: string, notes: Notes): JsonMap {
  const input = { prefix: name, notes };
  const sse = textOf(type) === 'sse';
  notes.add(`${at}.type`, sse ? 'approximate' : 'exact', sse ? 'HTTP+SSE is deprecated' : undefined);
  notes.add(`${at}.url`, 'exact');
  const written = filled(textOf(url) ?? '', mapOf(variables), `${at}.url`, input);
  const list = listOf(headers)
    .map(mapOf)
    .flatMap((header, i): [string, Json][] => {
      const key = textOf(header['name']);
      const value = inputValue(header, key ?? '', `${at}.headers[${i}]`, input);
      return key === undefined || value === undefined ? [] : [[key, value]];
    });
  return {
    url: written,
    transport: sse ? 'sse' : 'http',
    ...(list.length > 0 && { headers: Object.fromEntries(list) }),
  };
}

function program(name: string, part: JsonMap, at: string, notes: Notes): JsonMap | undefined {
  const registry = textOf(part['registryType']) ?? '';
  const runtime = RUNTIMES[registry];
  const transport = mapOf(part['transport']);
  if (runtime === undefined) {
    notes.add(
      at,
      'manual',
      `install the package yourself: Parley starts no packages of ${registry || 'an unknown registry'}`,
    );
    return undefined;
  }
  const kind = textOf(transport['type']) ?? 'stdio';
  if (kind !== 'stdio') {
    notes.add(
      at,
      'manual',
      `start the package yourself: it serves ${kind}, and Parley starts programs that speak over stdio`,
    );
    return undefined;
  }
  const input = { prefix: name, notes };
  const hint = textOf(part['runtimeHint']);
  const identifier = textOf(part['identifier']) ?? '';
  const version = textOf(part['version']);
  if (identifier === '' || identifier.startsWith('-')) {
    notes.add(at, 'unsupported', 'it names no package');
    return undefined;
  }
  const env = listOf(part['environmentVariables'])
    .map(mapOf)
    .flatMap((variable, i): [string, Json][] => {
      const key = textOf(variable['name']);
      const value = inputValue(variable, key ?? '', `${at}.environmentVariables[${i}]`, input);
      return key === undefined || value === undefined ? [] : [[key, value]];
    });
  const runtimeArguments = argumentsOf(part['runtimeArguments'], `${at}.runtimeArguments`, input);
  const own = hint === undefined || hint === runtime.command;
  const before = own ? runtime.args.filter((arg) => !runtimeArguments.includes(arg)) : [];
  const passed = runtime.command === 'docker' ? env.flatMap(([key]) => ['-e', key]) : [];
  const tagged = /[@:][^/]*$/.test(identifier.slice(1));
  const versioned = literal(version === undefined || tagged ? identifier : `${identifier}${runtime.join}${version}`);
  for (const key of Object.keys(part)) {
    if (
      key === 'registryType' ||
      key === 'identifier' ||
      key === 'version' ||
      key === 'transport' ||
      key === 'runtimeHint'
    )
      notes.add(`${at}.${key}`, 'exact');
    else if (key === 'fileSha256' || key === 'registryBaseUrl')
      notes.add(`${at}.${key}`, 'unsupported', 'the program that starts the package decides this');
    else if (!['runtimeArguments', 'packageArguments', 'environmentVariables'].includes(key))
      notes.add(`${at}.${key}`, 'unsupported');
  }
  const args = [
    ...before,
    ...runtimeArguments,
    ...passed,
    versioned,
    ...argumentsOf(part['packageArguments'], `${at}.packageArguments`, input),
  ];
  return { command: literal(hint ?? runtime.command), args, ...(env.length > 0 && { env: Object.fromEntries(env) }) };
}

interface Input {
  readonly prefix: string;
  readonly notes: Notes;
}

function argumentsOf(list: Json | undefined, at: string, input: Input): string[] {
  return listOf(list)
    .map(mapOf)
    .flatMap((argument, i) => {
      const where = `${at}[${i}]`;
      const flag = textOf(argument['name']);
      const label = flag ?? textOf(argument['valueHint']) ?? `argument ${i + 1}`;
      const isFlag =
        argument['type'] === 'named' &&
        argument['value'] === undefined &&
        argument['default'] === undefined &&
        argument['format'] === 'boolean';
      const value = isFlag ? undefined : inputValue(argument, label, where, input);
      if (argument['isRepeated'] === true) input.notes.add(where, 'approximate', 'write further values yourself');
      if (argument['type'] === 'named') return flag === undefined || value === undefined ? [] : [literal(flag), value];
      return value === undefined ? [] : [value];
    });
}

/** The fixed value of an input, its default, or an environment variable that a person sets. */
function inputValue(part: JsonMap, label: string, where: string, input: Input): string | undefined {
  const fixed = textOf(part['value']);
  if (fixed !== undefined) {
    input.notes.add(where, 'exact');
    return filled(fixed, mapOf(part['variables']), where, input);
  }
  const preset = textOf(part['default']);
  const secret = part['isSecret'] === true;
  if (part['isRequired'] !== true && preset === undefined && !secret) {
    input.notes.add(where, 'manual', `optional; write it if you need it${aside(part)}`);
    return undefined;
  }
  const variable = variableOf(label, input.prefix);
  // A default with braces or dollar signs is not written into the reference: they would end the default, or refer to a
  // variable of this machine.
  const plain = preset !== undefined && !secret && !/[${}]/.test(preset);
  const usual = preset !== undefined && !secret && !plain ? `, by default ${preset}` : '';
  input.notes.add(where, 'approximate', `set the environment variable ${variable}${usual}${aside(part)}`);
  return plain ? `\${${variable}:-${preset}}` : `\${${variable}}`;
}

function aside({ description, choices }: JsonMap): string {
  const text = textOf(description);
  const list = listOf(choices).map((choice) => textOf(choice) ?? '');
  return `${text === undefined ? '' : `: ${text}`}${list.length > 0 ? ` (one of ${list.join(', ')})` : ''}`;
}

/** Replaces `{name}` by the variables of the input. A name without a variable stays as it is. */
function filled(text: string, variables: JsonMap, where: string, input: Input): string {
  return withReferences(text, /\$*\{([^{}]+)\}/g, ([, name]) => {
    const variable = Object.hasOwn(variables, name!) ? variables[name!] : undefined;
    return isMap(variable) ? inputValue({ isRequired: true, ...variable }, name!, where, input) : undefined;
  });
}

function variableOf(label: string, prefix: string): string {
  const words = label
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '');
  const plain = /^[A-Z][A-Z0-9_]*$/.test(label)
    ? label
    : `${prefix.toUpperCase().replace(/[^A-Z0-9]+/g, '_')}_${words}`;
  return plain;
}
