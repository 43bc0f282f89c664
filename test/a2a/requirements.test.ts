import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { CASES } from './cases/index.js';
import { REQUIREMENTS } from './requirements.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const ID = /\b[SCG]-\d+\b/g;

/** The names of the tests in a file: the first arguments of test, it and describe, with or without `each`. */
function titles(source: string): string[] {
  const names = /(?:\b(?:test|it|describe)(?:\.\w+)*|\))\(\s*(['"`])((?:\\.|(?!\1)[\s\S])*?)\1\s*,/g;
  return [...source.matchAll(names)].map((match) => match[2]!);
}

/** All requirement ids in names of tests. */
function tested(): Set<string> {
  const found = new Set<string>(CASES.flatMap(({ ids }) => ids));
  for (const folder of ['src', 'test'])
    for (const file of readdirSync(`${root}/${folder}`, { recursive: true, encoding: 'utf8' })) {
      if (!file.endsWith('.test.ts')) continue;
      for (const title of titles(readFileSync(`${root}/${folder}/${file}`, 'utf8')))
        for (const id of title.match(ID) ?? []) found.add(id);
    }
  return found;
}

/** All ids that docs/compatibility.md lists as not crossing the gateway. */
function waived(): Set<string> {
  const page = readFileSync(`${root}/docs/compatibility.md`, 'utf8');
  const section = /\n## What does not cross the gateway\n([\s\S]*?)(?=\n## |$)/.exec(page)?.[1] ?? '';
  return new Set(section.match(ID));
}

test('every requirement has a test that names it, or is listed as not crossing the gateway', () => {
  const [proven, known] = [tested(), waived()];
  const missing = Object.entries(REQUIREMENTS).filter(([id]) => !proven.has(id) && !known.has(id));
  expect(missing.map(([id, title]) => `${id}: ${title}`)).toEqual([]);
});

test('every requirement that a case names exists', () => {
  const optional = ['S-14', 'C-12', 'C-14'];
  const ids = new Set(CASES.flatMap((one) => one.ids));
  expect([...ids].filter((id) => !(id in REQUIREMENTS) && !optional.includes(id))).toEqual([]);
});
