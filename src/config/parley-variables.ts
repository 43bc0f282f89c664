import type { Environment } from './expand-variables.js';
import type { Field, KeyStyle } from './field.js';
import { OTHER_GATEWAY_VARIABLES, type OtherGatewayVariable } from './other-gateway-variables.js';
import { emptyMap, parseText, type Raw, type RawMap, type RawScalar } from './parsed-file.js';
import { nearest, type Origin, type Problems, show } from './problem.js';
import { join } from './validate.js';

const PREFIX = 'PARLEY_';
/**
 * Variables that are not keys: the path of the file, the token of commands, and the values of an editor's `${input:…}`.
 */
const OTHER_NAMES = /^PARLEY_(CONFIG$|TOKEN$|INPUT_)/;
/** Kubernetes sets these variables in containers if there is a service named `parley`. */
const SERVICE_LINK = /^PARLEY_(SERVICE_(HOST|PORT)|PORT=(tcp|udp|sctp):|PORT_\d+_(TCP|UDP|SCTP))/;

/** The form of a key in the name of a variable: `callMax` becomes CALL_MAX. */
export function words(key: string): string {
  return key.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toUpperCase();
}

export interface KeyVariable {
  readonly variable: string;
  readonly key: string;
}

/** Every key with the name of its variable; `<NAME>` and `<N>` are placeholders for the user's names and numbers. */
export function keyVariables(field: Field, variable = 'PARLEY', key = ''): KeyVariable[] {
  const here = key === '' || key.endsWith('>') || key.endsWith(']') ? [] : [{ variable, key }];
  const dot = key === '' ? '' : '.';
  switch (field.kind) {
    case 'scalar':
      return [{ variable, key }];
    case 'list':
      return field.item.kind === 'group'
        ? [...here, ...keyVariables(field.item, `${variable}_<N>`, `${key}[N]`)]
        : here;
    case 'map':
      return [...here, ...keyVariables(field.item, `${variable}_<NAME>`, `${key}${dot}<name>`)];
    case 'group': {
      const inner = Object.entries(field.fields).flatMap(([name, child]) =>
        keyVariables(child, `${variable}_${words(name)}`, `${key}${dot}${name}`),
      );
      return [...here, ...inner];
    }
  }
}

/** Sets the keys of environment variables; they win over the file. */
export function applyEnvironment(
  schema: Field,
  root: RawMap,
  env: Environment,
  directory: string,
  problems: Problems,
): void {
  for (const { path, oldName } of oldNames(schema)) {
    const value = env[oldName];
    if (value === undefined || value === '') continue;
    const origin = { variable: oldName, directory };
    setPath(root, path, literal(value, origin));
  }
  applyOtherGatewayVariables(schema, root, env, directory, problems);
  const names = Object.keys(env).filter((name) => name.startsWith(PREFIX) && (env[name] ?? '') !== '');
  const known = keyVariables(schema).map((entry) => entry.variable.slice(PREFIX.length));
  for (const name of names.sort(byDepth)) {
    if (OTHER_NAMES.test(name) || SERVICE_LINK.test(`${name}=${env[name]}`)) continue;
    const origin = { variable: name, directory };
    const assignment = { key: '', value: env[name] ?? '', origin, problems };
    const parts = name.slice(PREFIX.length).split('_');
    const done = parts.every((part) => part !== '') && assign(schema, parts, root, assignment);
    if (!done) {
      // Compare without the prefix: with it every short name would look similar.
      const near = nearest(name.slice(PREFIX.length), known);
      const fix = near === undefined ? 'unset it, or see docs/configuration.md' : `did you mean ${PREFIX}${near}?`;
      problems.warn('unknown_variable', '', `${name} sets no key and is ignored`, fix, origin);
    }
  }
}

/**
 * The variables of other gateways that need a conversion or have no effect. Variables in the `oldNames` of a key are
 * not among them.
 */
export function otherGatewayVariables(schema: Field): OtherGatewayVariable[] {
  const named = new Set(oldNames(schema).map(({ oldName }) => oldName));
  return OTHER_GATEWAY_VARIABLES.filter(({ name }) => !named.has(name));
}

function applyOtherGatewayVariables(
  schema: Field,
  root: RawMap,
  env: Environment,
  directory: string,
  problems: Problems,
): void {
  const lists = new Map<string, { readonly path: readonly string[]; readonly items: RawScalar[] }>();
  for (const variable of otherGatewayVariables(schema)) {
    const written = env[variable.name];
    if (written === undefined || written === '') continue;
    const origin = { variable: variable.name, directory };
    if ('ignored' in variable) {
      problems.warn('unknown_variable', '', `${variable.name} has no effect: ${variable.ignored}`, 'unset it', origin);
      continue;
    }
    const nodes = variable.values(written).map((value) => literal(value, origin));
    const [first] = nodes;
    if (variable.list !== true) {
      if (first) setPath(root, variable.key, first);
      continue;
    }
    const key = variable.key.join('.');
    lists.set(key, { path: variable.key, items: [...(lists.get(key)?.items ?? []), ...nodes] });
  }
  for (const { path, items } of lists.values()) {
    const [first] = items;
    if (first) setPath(root, path, { kind: 'list', items, origin: first.origin });
  }
}

/** Sorts variables for whole sections before variables for their parts, and list items in order. */
function byDepth(a: string, b: string): number {
  return a.split('_').length - b.split('_').length || a.localeCompare(b, 'en', { numeric: true });
}

interface Assignment {
  /** The parent of the key that is set. */
  readonly key: string;
  readonly value: string;
  readonly origin: Origin;
  readonly problems: Problems;
}

/**
 * Finds the key with the words `parts` and sets it. Returns false, and leaves `at` unchanged, if there is no such key.
 */
function assign(field: Field, parts: readonly string[], at: RawMap, assignment: Assignment): boolean {
  switch (field.kind) {
    case 'group':
      return childrenNamed(field.fields, parts).some(([name, taken]) => {
        const child = field.fields[name];
        return child !== undefined && assignChild(child, parts.slice(taken), at, name, assignment);
      });
    case 'map': {
      const existing = [...at.entries.keys()];
      return candidateNames(parts, existing, field.keys, field.item.kind === 'scalar').some(([name, taken]) =>
        assignChild(field.item, parts.slice(taken), at, name, assignment),
      );
    }
    default:
      return false;
  }
}

function assignChild(field: Field, rest: readonly string[], at: RawMap, name: string, assignment: Assignment): boolean {
  const { origin } = assignment;
  const here = { ...assignment, key: join(assignment.key, name) };
  const current = at.entries.get(name)?.node;
  if (rest.length === 0) {
    const node = wholeValue(field, current, here);
    if (node !== undefined) at.entries.set(name, { node, origin });
    return true;
  }
  if (field.kind === 'scalar') return false;
  if (field.kind === 'list') return assignItem(field.item, rest, at, name, current, here);
  const inner = current?.kind === 'map' ? current : emptyMap(origin);
  if (!assign(field, rest, inner, here)) return false;
  if (inner !== current) at.entries.set(name, { node: inner, origin });
  return true;
}

/** Sets one key of one list item, as in `PARLEY_AUTH_TOKENS_0_NAME`. */
function assignItem(
  item: Field,
  rest: readonly string[],
  at: RawMap,
  name: string,
  current: Raw | undefined,
  assignment: Assignment,
): boolean {
  const index = /^\d{1,4}$/.test(rest[0] ?? '') ? Number(rest[0]) : -1;
  const items = current?.kind === 'list' ? current.items : [];
  if (index < 0 || index > items.length || item.kind !== 'group') return false;
  const before = items[index];
  const target = before?.kind === 'map' ? before : emptyMap(assignment.origin);
  if (!assign(item, rest.slice(1), target, assignment)) return false;
  items[index] = target;
  const origin = current?.origin ?? assignment.origin;
  at.entries.set(name, { node: { kind: 'list', items, origin }, origin });
  return true;
}

/**
 * The keys whose words start `parts`, the longest first: CALL_MAX before CALL. The words may also lack the underscores.
 */
function childrenNamed(fields: Readonly<Record<string, Field>>, parts: readonly string[]): [string, number][] {
  const found: [string, number][] = [];
  for (const name of Object.keys(fields)) {
    const spelled = words(name).split('_');
    if (spelled.every((word, i) => parts[i] === word)) found.push([name, spelled.length]);
    else if (parts[0] === spelled.join('')) found.push([name, 1]);
  }
  return found.sort((a, b) => b[1] - a[1]);
}

/** The ways to split `parts` into a name and a rest: existing names first, then the shortest new name. */
function candidateNames(
  parts: readonly string[],
  existing: readonly string[],
  style: KeyStyle,
  takesAll: boolean,
): [string, number][] {
  const lengths = takesAll ? [parts.length] : parts.slice(1).map((_, i) => i + 1);
  const known: [string, number][] = [];
  const fresh: [string, number][] = [];
  for (const taken of lengths) {
    const spelled = parts.slice(0, taken);
    const name = NAMED[style](spelled);
    const match = existing.find((key) => canonical(key) === canonical(name));
    if (match !== undefined) known.unshift([match, taken]);
    else fresh.push([name, taken]);
  }
  return [...known, ...fresh];
}

const NAMED: Readonly<Record<KeyStyle, (words: readonly string[]) => string>> = {
  variable: (words) => words.join('_'),
  tool: (words) => words.join('_').toLowerCase(),
  server: (words) => words.join('-').toLowerCase(),
  header: (words) => words.join('-').toLowerCase(),
};

function canonical(name: string): string {
  return name.toUpperCase().replaceAll('-', '_');
}

/** A variable for a whole list, map or section holds JSON or YAML. Commas may separate the values of a simple list. */
function wholeValue(field: Field, current: Raw | undefined, assignment: Assignment): Raw | undefined {
  const { key, value, origin, problems } = assignment;
  if (field.kind === 'scalar') return literal(value, origin);
  if (field.kind === 'list' && !value.trimStart().startsWith('[')) {
    if (field.item.kind === 'scalar') {
      const items = value.split(',').map((item) => literal(item.trim(), origin));
      return { kind: 'list', items, origin };
    }
  }
  const parsed = parseText(value, 'yaml', origin, problems);
  if (parsed === undefined) return undefined;
  const wanted = field.kind === 'list' ? 'list' : 'map';
  if (parsed.kind !== wanted) {
    problems.error(
      'type',
      key,
      `${show(value, true)} is not a ${wanted}`,
      `write ${origin.variable} as a JSON ${wanted === 'list' ? 'array' : 'object'}`,
      origin,
    );
    return undefined;
  }
  const node = asLiteral(parsed);
  if (node.kind !== 'map' || current?.kind !== 'map') return node;
  return { ...current, entries: new Map([...current.entries, ...node.entries]) };
}

function literal(value: string, origin: Origin): RawScalar {
  return { kind: 'scalar', value, origin, literal: true };
}

function asLiteral(raw: Raw): Raw {
  if (raw.kind === 'scalar') return { ...raw, literal: true };
  if (raw.kind === 'list') return { ...raw, items: raw.items.map(asLiteral) };
  const entries = [...raw.entries].map(([name, entry]) => [name, { ...entry, node: asLiteral(entry.node) }] as const);
  return { ...raw, entries: new Map(entries) };
}

/** Variables of other gateways that Parley understands. */
export function oldNames(field: Field, path: readonly string[] = []): { path: readonly string[]; oldName: string }[] {
  if (field.kind === 'scalar') return field.oldNames.map((oldName) => ({ path, oldName }));
  if (field.kind !== 'group') return [];
  return Object.entries(field.fields).flatMap(([name, child]) => oldNames(child, [...path, name]));
}

function setPath(at: RawMap, path: readonly string[], node: Raw): void {
  const [name = '', ...rest] = path;
  if (rest.length === 0) {
    at.entries.set(name, { node, origin: node.origin });
    return;
  }
  const current = at.entries.get(name)?.node;
  const inner = current?.kind === 'map' ? current : emptyMap(node.origin);
  if (inner !== current) at.entries.set(name, { node: inner, origin: node.origin });
  setPath(inner, rest, node);
}
