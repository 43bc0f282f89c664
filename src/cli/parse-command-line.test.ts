import { describe, expect, test } from 'vitest';
import { UsageError } from './command.js';
import { COMMANDS, helpText, TOP_FLAGS } from './commands.js';
import { parseCommandLine } from './parse-command-line.js';

const parse = (line: string) => parseCommandLine(line.split(' ').filter((word) => word !== ''));

function refusal(line: string): string {
  try {
    parse(line);
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
  throw new Error(`${line} was accepted`);
}

test.each([
  ['serve', 'serve', {}],
  ['serve --config x.yaml', 'serve', { config: 'x.yaml' }],
  ['serve --config=x.yaml', 'serve', { config: 'x.yaml' }],
  ['serve -c x.yaml', 'serve', { config: 'x.yaml' }],
  ['--config x.yaml serve', 'serve', { config: 'x.yaml' }],
  ['stdio --server weather -c x.yaml', 'stdio', { server: 'weather', config: 'x.yaml' }],
  ['config check', 'config check', {}],
  ['logs files --json', 'logs', { json: true }],
  ['config check --json --config x.json', 'config check', { json: true, config: 'x.json' }],
  ['config --json check', 'config check', { json: true }],
])('parley %s', (line, name, flags) => {
  expect(parse(line)).toMatchObject({ kind: 'run', command: { name }, flags });
});

test.each([
  ['--help', undefined],
  ['-h', undefined],
  ['help', undefined],
  ['serve --help', 'serve'],
  ['--help serve', 'serve'],
  ['help serve', 'serve'],
  ['stdio -h', 'stdio'],
  ['config check --help', 'config check'],
  ['help config check', 'config check'],
])('parley %s asks for help', (line, name) => {
  const invocation = parse(line);
  expect(invocation.kind).toBe('help');
  expect(invocation.kind === 'help' && invocation.command?.name).toBe(name);
});

test('reads the argument of a command that requires one', () => {
  expect(parse('logs files')).toMatchObject({ kind: 'run', operands: ['files'] });
  expect(parse('--url http://x logs files')).toMatchObject({ operands: ['files'], flags: { url: 'http://x' } });
  expect(parse('serve')).toMatchObject({ operands: [] });
});

test('a flag of the same name has a value in one command and none in another', () => {
  const args = '{"city":"Oslo"}';
  const called = { command: { name: 'call' }, operands: ['x'], flags: { arguments: args } };
  expect(parse(`call x --arguments ${args}`)).toMatchObject(called);
  expect(parse(`call --arguments ${args} x`)).toMatchObject(called);
  const recorded = { command: { name: 'record' }, operands: ['f'], flags: { arguments: true } };
  expect(parse('record --arguments f')).toMatchObject(recorded);
});

test('the version', () => {
  expect(parse('--version')).toEqual({ kind: 'version' });
  expect(parse('-V')).toEqual({ kind: 'version' });
  expect(parse('serve --version')).toEqual({ kind: 'version' });
});

test('no command', () => {
  expect(parse('')).toEqual({ kind: 'nothing' });
});

describe('usage errors', () => {
  test.each([
    ['srve', 'unknown command "srve"; did you mean serve?'],
    ['studio', 'unknown command "studio"; did you mean stdio?'],
    ['xyzzy', 'unknown command "xyzzy"'],
    ['help xyzzy', 'unknown command "xyzzy"'],
    ['config', 'config needs one of: check, diff, schema'],
    ['logs', 'logs needs SERVER: parley logs SERVER'],
    ['logs files others', '"others" is not expected'],
    ['config xyzzy', 'unknown command "xyzzy"; choose one of: check, diff, schema'],
    ['config chekc', 'unknown command "chekc"; did you mean check?'],
    ['serve --confg x', 'unknown option --confg; did you mean --config?'],
    ['serve --json', 'unknown option --json; it belongs to parley config check'],
    ['serve --server x', 'unknown option --server; it belongs to parley stdio'],
    ['serve -x', 'unknown option -x; the options are --config, --help, --version'],
    ['--versoin', 'unknown option --versoin; did you mean --version?'],
    ['--verbose', 'unknown option --verbose; the options are --help, --version'],
    ['serve --config', '--config needs a value: --config FILE'],
    ['serve --config=', '--config needs a value: --config FILE'],
    ['config check --config --json', '--config needs a value: --config FILE'],
    ['config check --json=yes', '--json takes no value'],
    ['serve -c a -c b', '-c is given twice'],
    ['serve parley.yaml', '"parley.yaml" is not expected; a configuration is given with --config parley.yaml'],
    ['serve now', '"now" is not expected'],
  ])('parley %s', (line, message) => {
    expect(refusal(line)).toBe(message);
  });
});

describe('help', () => {
  test('of the program names every command and every global option', () => {
    const text = helpText();
    const lines = text.split('\n');
    for (const { name, operands = [], summary } of COMMANDS) {
      const typed = [name, ...operands].join(' ');
      expect(
        lines.some((line) => line.trim().startsWith(typed) && line.endsWith(`  ${summary}`)),
        typed,
      ).toBe(true);
    }
    for (const { name } of TOP_FLAGS) expect(text).toContain(`--${name}`);
  });

  test.each(COMMANDS.map((command) => [command.name, command] as const))(
    'of %s names every option',
    (name, command) => {
      const text = helpText(command);
      const { operands = [], optional = [] } = command;
      expect(text).toContain(`Usage: parley ${[name, ...operands].join(' ')} [`);
      for (const operand of optional) expect(text).toMatch(new RegExp(`Usage: .*\\b${operand}\\b.*\\[options\\]`));
      for (const { name: flag, short, value, description } of command.flags) {
        expect(text).toContain(value === undefined ? `--${flag} ` : `--${flag} ${value} `);
        expect(text).toContain(description);
        if (short !== undefined) expect(text).toContain(`-${short}, --${flag}`);
      }
    },
  );

  test('its examples parse', () => {
    for (const { name, examples } of COMMANDS) {
      for (const example of examples) {
        const words = (example.match(/"[^"]*"|\S+/g) ?? []).filter((word) => !/^[A-Z_]+=/.test(word));
        expect(words.shift()).toBe('parley');
        expect(parseCommandLine(words)).toMatchObject({ kind: 'run', command: { name } });
      }
    }
  });

  test('fits into 120 columns', () => {
    for (const text of [helpText(), ...COMMANDS.map(helpText)]) {
      for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(120);
    }
  });
});
