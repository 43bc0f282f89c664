// Checks that imports point inwards: reads every file under src/ and reports imports that the layer may not have.
//   node scripts/check-imports.mjs [folder that contains src/]
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { importsOf, withoutComments, withoutStrings } from './source-text.mjs';

/**
 * The layers that each layer may import. An entry is a layer, or a file or folder in one (`identity/token-strength`);
 * with the prefix `type` only its types may be imported. `builtins` and `packages` list the allowed modules of a pure
 * layer; without a list every module is allowed.
 */
const LAYERS = {
  protocol: { knows: [], builtins: ['node:buffer', 'node:crypto'], packages: [] },
  core: { knows: ['protocol', 'telemetry/log'], builtins: ['node:buffer', 'node:crypto', 'node:events'], packages: [] },
  interceptors: { knows: ['core', 'protocol', 'telemetry', 'plugins'], builtins: ['node:buffer', 'node:crypto'] },
  plugins: { knows: ['core', 'protocol', 'telemetry'] },
  identity: { knows: ['core', 'protocol', 'telemetry/log', 'type state'] },
  telemetry: { knows: ['protocol'] },
  state: { knows: ['protocol', 'telemetry', 'core/timing', 'core/thread-program'] },
  inbound: { knows: ['core', 'protocol', 'identity', 'telemetry', 'type state'] },
  outbound: { knows: ['core', 'protocol', 'identity', 'telemetry', 'plugins/api', 'type state'] },
  cluster: { knows: ['core', 'protocol', 'state', 'telemetry/log', 'type inbound/mcp/session'] },
  assess: { knows: ['core', 'protocol', 'outbound', 'telemetry'] },
  config: {
    knows: [
      'identity/token-strength',
      'identity/mask-secrets',
      'identity/policy',
      'plugins/api',
      'protocol/mcp/revisions',
      'protocol/a2a/dialect',
    ],
  },
  /** The composition root imports every layer except the command line; only the command line imports it. */
  app: {
    knows: [
      'protocol',
      'core',
      'interceptors',
      'plugins',
      'identity',
      'telemetry',
      'state',
      'inbound',
      'outbound',
      'cluster',
      'assess',
      'config',
    ],
  },
  cli: { knows: ['config', 'app', 'assess', 'telemetry'] },
};

/** Modules that only some folders may import. */
const ONLY_IN = {
  'node:http': { places: ['inbound/http/', 'assess/client/'], why: 'only these folders serve HTTP' },
  'node:http2': { places: ['inbound/http/'], why: 'it is the only folder that serves HTTP' },
  'node:https': { places: ['inbound/http/', 'outbound/http/'], why: 'only these folders accept or open connections' },
  'node:tls': { places: ['inbound/http/', 'outbound/http/'], why: 'only these folders accept or open connections' },
  undici: { places: ['outbound/http/'], why: 'it is the only folder that opens connections' },
  'node:child_process': {
    places: ['outbound/stdio/'],
    why: 'it is the only folder that starts and guards child processes',
  },
};

/** Layers that know one version only: src/protocol handles the differences between versions. */
const VERSION_FREE = new Set(['core', 'interceptors']);
const ERROR_CODE = /-32\d{3}\b/g;
const ERA = /\.era\b|\.(?:legacy|modern)\b|'(?:legacy|modern)'/g;

const TYPE_OF_ANY = /(?:[:<|&,([]|\bas\b|\bextends\b|=>)\s*any\b(?!\s*[:=?(.])/g;

/** A handwritten sleep; core/timing has one that can be interrupted and bounded. */
const OWN_SLEEP = /\bsetTimeout\(\s*resolve\b/g;

/** All problems of the tree below `root`, as lines to print. */
function check(root) {
  const files = sources(path.join(root, 'src'));
  const dates = revisionDates(root);
  const problems = [];
  const graph = new Map();
  for (const file of files) {
    const name = path.relative(path.join(root, 'src'), file).split(path.sep).join('/');
    const code = withoutComments(readFileSync(file, 'utf8'));
    const report = (offset, message) => {
      const line = code.slice(0, offset).split('\n').length;
      problems.push(`src/${name}:${line}: ${message}`);
    };
    graph.set(name, []);
    for (const found of importsOf(code)) {
      const problem = found.specifier.startsWith('.')
        ? checkRelative(root, name, found, graph)
        : checkForeign(name, found.specifier);
      if (problem) report(found.offset, problem);
    }
    if (layerOf(name) !== 'protocol') {
      for (const { index, 0: date } of code.matchAll(dates)) {
        report(
          index,
          `the revision ${date} is named outside of src/protocol; ask a revision what it can express instead`,
        );
      }
    }
    if (VERSION_FREE.has(layerOf(name))) {
      for (const { index, 0: number } of code.matchAll(ERROR_CODE))
        report(index, `the error code ${number} belongs to src/protocol; decide by the reason of an error instead`);
      for (const { index, 0: era } of code.matchAll(ERA))
        report(index, `${era} is a branch on an era; ask a revision what it can express instead`);
    }
    const bare = withoutStrings(code);
    for (const { index } of bare.matchAll(TYPE_OF_ANY)) report(index, 'any is not allowed as a type; use unknown');
    for (const { index } of bare.matchAll(OWN_SLEEP)) report(index, 'use sleep or within of core/timing');
  }
  for (const cycle of cycles(graph)) problems.push(`src/${cycle[0]}: circular imports: ${cycle.join(' -> ')}`);
  return { count: files.length, problems };
}

function sources(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /(?<!\.d|\.test)\.(ts|mts|js|mjs)$/.test(entry.name))
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

/** The revision dates are the names of the folders under src/protocol. */
function revisionDates(root) {
  const folder = path.join(root, 'src/protocol/mcp/revisions');
  const dates = existsSync(folder) ? readdirSync(folder).filter((name) => /^\d{4}-\d\d-\d\d$/.test(name)) : [];
  return new RegExp(`\\b(?:${dates.join('|') || '(?!)'})\\b`, 'g');
}

function layerOf(name) {
  const [first] = name.split('/');
  return first.replace(/\.\w+$/, '');
}

function checkRelative(root, name, { specifier, isType }, graph) {
  const target = path.posix.join(path.posix.dirname(name), specifier);
  if (target.startsWith('..')) return `${specifier} is outside of src`;
  const file = target.replace(/\.(m?)js$/, '.$1ts');
  const known = [file, target].find((candidate) => existsSync(path.join(root, 'src', candidate)));
  if (known === undefined) return `${specifier} does not exist`;
  graph.get(name).push(known);
  const from = layerOf(name);
  const to = layerOf(known);
  if (from === to) return undefined;
  const layer = LAYERS[from];
  if (layer === undefined) return `the layer "${from}" has no rule; add it to scripts/check-imports.mjs`;
  const rule = layer.knows.find((entry) => covers(entry.replace(/^type /, ''), known));
  if (rule === undefined)
    return `${from} may not import ${to} (${specifier}); it may import ${layer.knows.join(', ') || 'no other layer'}`;
  if (rule.startsWith('type ') && !isType)
    return `${from} may import only types of ${to}: write import type (${specifier})`;
  return undefined;
}

function covers(entry, file) {
  return file === `${entry}.ts` || file.startsWith(`${entry}/`);
}

function checkForeign(name, specifier) {
  const from = layerOf(name);
  const only = ONLY_IN[specifier];
  if (only && !only.places.some((place) => name.startsWith(place)))
    return `${specifier} belongs to ${only.places.map((place) => `src/${place}`).join(' and ')}: ${only.why}`;
  const { builtins, packages } = LAYERS[from] ?? {};
  if (specifier.startsWith('node:')) {
    if (builtins && !builtins.includes(specifier))
      return `${from} may not import ${specifier}; it may import ${builtins.join(', ')}`;
  } else if (packages && !packages.includes(specifier)) {
    return `${from} may not import the package ${specifier}; it must not depend on packages`;
  }
  return undefined;
}

/** One cycle per strongly connected component of the import graph (Tarjan's algorithm). */
function cycles(graph) {
  const index = new Map();
  const low = new Map();
  const stack = [];
  const found = [];
  const visit = (file) => {
    index.set(file, index.size);
    low.set(file, index.get(file));
    stack.push(file);
    for (const next of graph.get(file) ?? []) {
      if (!index.has(next)) visit(next);
      if (stack.includes(next)) low.set(file, Math.min(low.get(file), low.get(next)));
    }
    if (low.get(file) !== index.get(file)) return;
    const component = new Set(stack.splice(stack.indexOf(file)));
    if (component.size > 1 || graph.get(file)?.includes(file)) found.push(cycleIn(graph, component));
  };
  for (const file of graph.keys()) if (!index.has(file)) visit(file);
  return found;
}

/** The shortest cycle inside a component, from its first file. */
function cycleIn(graph, component) {
  const [start] = [...component].sort();
  const chains = [[start]];
  for (const chain of chains) {
    for (const next of graph.get(chain.at(-1))) {
      if (next === start) return [...chain, start];
      if (component.has(next) && !chains.some((other) => other.at(-1) === next)) chains.push([...chain, next]);
    }
  }
  return [...component];
}

const root = path.resolve(process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url)));
const { count, problems } = check(root);
for (const problem of problems) console.error(problem);
console.log(`${count} files, ${problems.length} ${problems.length === 1 ? 'problem' : 'problems'}`);
process.exitCode = problems.length > 0 ? 1 : 0;
