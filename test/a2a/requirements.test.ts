import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { CASES } from './cases/index.js';
import { REQUIREMENTS } from './requirements.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const ID = /\b[SCG]-\d+\b/g;

/** The names of the tests in a file: first arguments of test, it and describe, with each and without. */
function titles(source: string): string[] {
  const names = /(?:\b(?:test|it|describe)(?:\.\w+)*|\))\(\s*(['"`])((?:\\.|(?!\1)[\s\S])*?)\1\s*,/g;
  return [...source.matchAll(names)].map((match) => match[2]!);
}

/** Every id that the name of a test carries. */
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

/** Every id that docs/compatibility.md names as one that does not cross. */
function waived(): Set<string> {
  const page = readFileSync(`${root}/docs/compatibility.md`, 'utf8');
  const section = /\n## What does not cross the gateway\n([\s\S]*?)(?=\n## |$)/.exec(page)?.[1] ?? '';
  return new Set(section.match(ID));
}

test('every requirement is proven by a test that names it, or stands in what does not cross', () => {
  const [proven, known] = [tested(), waived()];
  const missing = Object.entries(REQUIREMENTS).filter(([id]) => !proven.has(id) && !known.has(id));
  expect(missing.map(([id, title]) => `${id}: ${title}`)).toEqual([]);
});

test('no case of the matrix names a requirement that is none', () => {
  const optional = ['S-14', 'C-12', 'C-14'];
  const ids = new Set(CASES.flatMap((one) => one.ids));
  expect([...ids].filter((id) => !(id in REQUIREMENTS) && !optional.includes(id))).toEqual([]);
});
