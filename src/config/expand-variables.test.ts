// biome-ignore-all lint/suspicious/noTemplateCurlyInString: this is the syntax under test
import { homedir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { type Environment, expandTree, inputVariable } from './expand-variables.js';
import { fromValue } from './parsed-file.js';
import { Problems } from './problem.js';

function expand(text: string, env: Environment = {}, directory = '/work/project') {
  const problems = new Problems();
  const used: string[] = [];
  const raw = expandTree(fromValue({ key: text }, { directory }), '', {
    env,
    problems,
    inputs: new Map([['with-default', 'preset']]),
    lenient: new Set(),
    used: (name) => used.push(name),
  });
  const node = raw.kind === 'map' ? raw.entries.get('key')?.node : undefined;
  return { value: node?.kind === 'scalar' ? node.value : undefined, problems: problems.all, used };
}

describe('variables', () => {
  test.each([
    ['${A}', 'one'],
    ['x-${A}-${B}-y', 'x-one-two-y'],
    ['${A:-other}', 'one'],
    ['${UNSET:-other}', 'other'],
    ['${EMPTY:-other}', 'other'],
    ['${EMPTY}', ''],
    ['${UNSET:-}', ''],
    ['${UNSET:-${B}}', 'two'],
    ['${UNSET:-${ALSO:-deep}}', 'deep'],
    ['${UNSET:-a:-b}', 'a:-b'],
    ['${env:A}', 'one'],
    ['$${A}', '${A}'],
    ['$A $ {A} 5$', '$A $ {A} 5$'],
  ])('%s becomes %j', (text, value) => {
    const { value: expanded, problems } = expand(text, { A: 'one', B: 'two', EMPTY: '' });
    expect(problems).toEqual([]);
    expect(expanded).toBe(value);
  });

  test('a value is not expanded again', () => {
    expect(expand('${A}', { A: '${B}', B: 'x' }).value).toBe('${B}');
  });

  test('an unset variable is an error that names the key and the variable', () => {
    expect(expand('${ADA_TOKEN}').problems).toMatchObject([
      { severity: 'error', code: 'unset_variable', key: 'key', message: expect.stringContaining('ADA_TOKEN') },
    ]);
  });

  test('an invalid variable name is an error', () => {
    for (const text of ['${}', '${a b}', '${command:x}', '${A']) {
      expect(expand(text, { A: '1' }).problems, text).toMatchObject([{ severity: 'error', key: 'key' }]);
    }
  });

  test('every variable that was used is reported', () => {
    expect(expand('${A}${UNSET:-${B}}', { A: '1', B: '2' }).used).toEqual(['A', 'B']);
  });
});

describe('variables of editors', () => {
  test.each([
    ['${workspaceFolder}/x', '/work/project/x'],
    ['${workspaceFolderBasename}', 'project'],
    ['${userHome}', homedir()],
    ['a${pathSeparator}b${/}c', `a${path.sep}b${path.sep}c`],
    ['${parleyFolder}/examples', fileURLToPath(new URL('../../examples', import.meta.url))],
  ])('%s', (text, value) => {
    expect(expand(text)).toMatchObject({ value, problems: [] });
  });

  test('the workspace is the folder around .vscode and .cursor', () => {
    expect(expand('${workspaceFolder}', {}, '/work/project/.vscode').value).toBe('/work/project');
    expect(expand('${workspaceFolder}', {}, '/work/project/.cursor').value).toBe('/work/project');
  });

  test('an input is taken from the environment, then from its default, and is an error otherwise', () => {
    expect(inputVariable('perplexity-key')).toBe('PARLEY_INPUT_PERPLEXITY_KEY');
    expect(expand('${input:perplexity-key}', { PARLEY_INPUT_PERPLEXITY_KEY: 'k' }).value).toBe('k');
    expect(expand('${input:with-default}').value).toBe('preset');
    expect(expand('${input:other}').problems).toMatchObject([
      { message: expect.stringContaining('PARLEY_INPUT_OTHER') },
    ]);
  });
});
