import { homedir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Raw } from './parsed-file.js';
import { type Origin, type Problems, show } from './problem.js';
import { join } from './validate.js';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Expansion {
  /** Undefined if the settings come from a caller, who must not read the environment: every `${…}` is refused. */
  readonly env: Environment | undefined;
  readonly problems: Problems;
  /** The default values of an editor's `inputs`, by id. */
  readonly inputs: ReadonlyMap<string, string>;
  /** Keys below these paths may name unset variables, because the server is switched off. */
  readonly lenient: ReadonlySet<string>;
  /** Called with every variable that was used. */
  used?(variable: string, value: string): void;
}

/** The raw tree with every `${…}` replaced. */
export function expandTree(raw: Raw, key: string, expansion: Expansion, lenient = false): Raw {
  const relaxed = lenient || expansion.lenient.has(key);
  switch (raw.kind) {
    case 'scalar': {
      if (typeof raw.value !== 'string' || raw.literal === true || !raw.value.includes('$')) return raw;
      const before = expansion.problems.all.length;
      const value = expandText(raw.value, { ...expansion, key, origin: raw.origin, relaxed });
      // A value that cannot be expanded counts as missing, because a partly expanded value would only cause more
      // errors.
      const failed = expansion.problems.all.length > before;
      return { ...raw, value: failed ? null : value, literal: true };
    }
    case 'list':
      return { ...raw, items: raw.items.map((item, i) => expandTree(item, `${key}[${i}]`, expansion, relaxed)) };
    case 'map': {
      const entries = [...raw.entries].map(([name, entry]) => {
        const node = expandTree(entry.node, join(key, name), expansion, relaxed);
        return [name, { ...entry, node }] as const;
      });
      return { ...raw, entries: new Map(entries) };
    }
  }
}

interface TextContext extends Expansion {
  readonly key: string;
  readonly origin: Origin;
  readonly relaxed: boolean;
}

/** Expands `${NAME}` and `${NAME:-default}` (also inside the default); `$${` is a literal `${`. */
function expandText(text: string, context: TextContext): string {
  let out = '';
  for (let i = 0; i < text.length; i++) {
    if (text.startsWith('$${', i)) {
      out += '${';
      i += 2;
    } else if (text.startsWith('${', i)) {
      if (context.env === undefined) return refused(text, context);
      const end = closing(text, i + 2);
      if (end === -1) {
        context.problems.error(
          'type',
          context.key,
          `${show(text)} has a \${ without a closing }`,
          `close it, or write $\${ for a literal \${`,
          context.origin,
        );
        return text;
      }
      out += resolve(text.slice(i + 2, end), context);
      i = end;
    } else {
      out += text[i];
    }
  }
  return out;
}

/** The text is not repeated: it may contain a secret. */
function refused(text: string, { problems, key, origin }: TextContext): string {
  const message = `contains \${, which stands for a variable; a registration cannot read the variables of the gateway`;
  const fix = `write the value itself, $\${ for a literal \${, or add the entry to the configuration file`;
  problems.error('unset_variable', key, message, fix, origin);
  return text;
}

function closing(text: string, from: number): number {
  let depth = 1;
  for (let i = from; i < text.length; i++) {
    if (text.startsWith('${', i)) depth += 1;
    else if (text[i] === '}') depth -= 1;
    if (depth === 0) return i;
  }
  return -1;
}

function resolve(inside: string, context: TextContext): string {
  const split = inside.indexOf(':-');
  const name = split === -1 ? inside : inside.slice(0, split);
  const fallback = split === -1 ? undefined : inside.slice(split + 2);
  const variable = variableOf(name);
  if (variable !== undefined) {
    const value = context.env?.[variable] ?? inputDefault(name, context);
    if (value !== undefined && (value !== '' || fallback === undefined)) {
      context.used?.(variable, value);
      return value;
    }
    if (fallback !== undefined) return expandText(fallback, context);
    return unset(name, variable, context);
  }
  const known = editorVariable(name, context.origin.directory ?? process.cwd());
  if (known !== undefined) return known;
  context.problems.error(
    'unset_variable',
    context.key,
    `\${${inside}} is not a valid variable`,
    `write \${NAME} or \${NAME:-default} with the name of an environment variable, or $\${ for a literal \${`,
    context.origin,
  );
  return '';
}

/** The environment variable behind `NAME`, Cursor's and VS Code's `env:NAME`, and VS Code's `input:some-id`. */
function variableOf(name: string): string | undefined {
  if (/^(env:)?[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !EDITOR_VARIABLES.has(name)) return name.replace(/^env:/, '');
  if (/^input:./.test(name)) return inputVariable(name.slice('input:'.length));
  return undefined;
}

/** The variable that replaces a question of VS Code to its user, because a gateway cannot ask. */
export function inputVariable(id: string): string {
  return `PARLEY_INPUT_${id.toUpperCase().replace(/[^A-Z0-9]+/g, '_')}`;
}

function inputDefault(name: string, context: TextContext): string | undefined {
  return name.startsWith('input:') ? context.inputs.get(name.slice('input:'.length)) : undefined;
}

function unset(name: string, variable: string, context: TextContext): string {
  const what = name.startsWith('input:')
    ? `\${${name}} asks for an input, and the environment variable ${variable} is not set`
    : `the environment variable ${variable} is not set`;
  const fix = `set ${variable}, or give a default: \${${name}:-value}`;
  if (context.relaxed) context.problems.warn('unset_variable', context.key, what, fix, context.origin);
  else context.problems.error('unset_variable', context.key, what, fix, context.origin);
  return '';
}

const EDITOR_VARIABLES = new Set([
  'workspaceFolder',
  'workspaceFolderBasename',
  'workspaceRoot',
  'userHome',
  'pathSeparator',
  'parleyFolder',
]);

/** The folder of this installation; it contains the examples. */
const PARLEY_FOLDER = fileURLToPath(new URL('../..', import.meta.url)).replace(/[/\\]$/, '');

/** The variables of VS Code, Cursor and Parley. The workspace is the folder that contains `.vscode` or `.cursor`. */
function editorVariable(name: string, directory: string): string | undefined {
  const inEditorFolder = ['.vscode', '.cursor'].includes(path.basename(directory));
  const workspace = inEditorFolder ? path.dirname(directory) : directory;
  switch (name) {
    case 'workspaceFolder':
    case 'workspaceRoot':
      return workspace;
    case 'workspaceFolderBasename':
      return path.basename(workspace);
    case 'userHome':
      return homedir();
    case 'parleyFolder':
      return PARLEY_FOLDER;
    case 'pathSeparator':
    case '/':
      return path.sep;
    default:
      return undefined;
  }
}
