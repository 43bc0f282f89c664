import { parseArgs } from 'node:util';
import { nearest } from '../config/problem.js';
import { type Command, type Flag, UsageError } from './command.js';
import { COMMANDS, TOP_FLAGS } from './commands.js';

export type Invocation =
  | { readonly kind: 'help'; readonly command?: Command }
  | { readonly kind: 'version' }
  | { readonly kind: 'nothing' }
  | {
      readonly kind: 'run';
      readonly command: Command;
      readonly flags: Readonly<Record<string, string | true>>;
      readonly operands: readonly string[];
    };

export function parseCommandLine(argv: readonly string[]): Invocation {
  const every = [...TOP_FLAGS, ...COMMANDS.flatMap((command) => command.flags)];
  const named = wordsOf(tokensOf(argv, every)).filter((word, at) => at > 0 || word !== 'help');
  const given = named.length === 0 ? undefined : findCommand(named);
  // Two commands may have a flag of the same name, once with a value and once without. The flags of the given command
  // decide.
  const tokens = tokensOf(argv, [...every, ...(given?.flags ?? [])]);
  const words = wordsOf(tokens);
  const options = tokens.filter((token) => token.kind === 'option');
  const wantsHelp = words[0] === 'help' || options.some((option) => option.name === 'help');
  if (words[0] === 'help') words.shift();

  const allowed = given === undefined ? TOP_FLAGS : [...given.flags, ...TOP_FLAGS];
  const flags: Record<string, string | true> = {};
  for (const option of options) {
    const flag = allowed.find(({ name }) => name === option.name);
    if (flag === undefined) throw unknownFlag(option.rawName, given);
    if (flag.name in flags) throw new UsageError(`${option.rawName} is given twice`, given);
    flags[flag.name] = flagValue(flag, option, given);
  }
  if (wantsHelp) return given === undefined ? { kind: 'help' } : { kind: 'help', command: given };
  if (flags['version'] !== undefined) return { kind: 'version' };
  if (given === undefined) return { kind: 'nothing' };

  const rest = words.slice(given.name.split(' ').length);
  const names = given.operands ?? [];
  const most = given.rest === undefined ? names.length + (given.optional?.length ?? 0) : rest.length;
  const operands = rest.splice(0, most);
  if (operands.length < names.length)
    throw new UsageError(
      `${given.name} needs ${names.slice(operands.length).join(' and ')}: parley ${given.name} ${names.join(' ')}`,
      given,
    );
  const [extra] = rest;
  if (extra !== undefined) {
    const hint = /\.(ya?ml|jsonc?)$/i.test(extra) ? `; a configuration is given with --config ${extra}` : '';
    throw new UsageError(`${JSON.stringify(extra)} is not expected${hint}`, given);
  }
  return { kind: 'run', command: given, flags, operands };
}

/**
 * Does not parse strictly, because the parser's own messages suggest no similar names. If a name has two flags, the
 * last one in `flags` counts.
 */
function tokensOf(argv: readonly string[], flags: readonly Flag[]) {
  const options = Object.fromEntries(flags.map((flag) => [flag.name, parserOption(flag)]));
  return parseArgs({ args: [...argv], options, strict: false, allowPositionals: true, tokens: true }).tokens;
}

const wordsOf = (tokens: ReturnType<typeof tokensOf>): string[] =>
  tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : []));

function parserOption({ value, short }: Flag): { type: 'string' | 'boolean'; short?: string } {
  const type = value === undefined ? 'boolean' : 'string';
  return short === undefined ? { type } : { type, short };
}

function findCommand(words: readonly string[]): Command {
  const found = COMMANDS.find(({ name }) => name.split(' ').every((word, i) => words[i] === word));
  if (found !== undefined) return found;
  const [first = '', second] = words;
  const below = COMMANDS.filter(({ name }) => name.startsWith(`${first} `)).map(({ name }) => name.split(' ')[1] ?? '');
  if (below.length > 0 && second === undefined) throw new UsageError(`${first} needs one of: ${list(below)}`);
  const known = below.length > 0 ? below : COMMANDS.map(({ name }) => name.split(' ')[0] ?? '');
  const wrong = below.length > 0 ? (second ?? '') : first;
  const near = nearest(wrong, known);
  const hint =
    near !== undefined ? `; did you mean ${near}?` : below.length > 0 ? `; choose one of: ${list(below)}` : '';
  throw new UsageError(`unknown command ${JSON.stringify(wrong)}${hint}`);
}

function unknownFlag(rawName: string, command: Command | undefined): UsageError {
  const known = [...new Set([...(command?.flags ?? []), ...TOP_FLAGS].map(({ name }) => `--${name}`))];
  const elsewhere = COMMANDS.find(({ flags }) => flags.some(({ name }) => `--${name}` === rawName));
  const near = nearest(rawName, known);
  const hint =
    elsewhere !== undefined
      ? `it belongs to parley ${elsewhere.name}`
      : near !== undefined
        ? `did you mean ${near}?`
        : `the options are ${list(known)}`;
  return new UsageError(`unknown option ${rawName}; ${hint}`, command);
}

interface OptionToken {
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
}

function flagValue(flag: Flag, option: OptionToken, command: Command | undefined): string | true {
  if (flag.value === undefined) {
    if (option.value !== undefined) throw new UsageError(`${option.rawName} takes no value`, command);
    return true;
  }
  const missing = option.value === undefined || option.value === '';
  // The parser takes the next word as the value, whatever it is. A next word that is an option is refused.
  if (missing || (option.inlineValue !== true && option.value?.startsWith('-'))) {
    throw new UsageError(`${option.rawName} needs a value: ${option.rawName} ${flag.value}`, command);
  }
  return option.value ?? '';
}

function list(names: readonly string[]): string {
  return names.join(', ');
}
