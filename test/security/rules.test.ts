/** The index of the security rules: each of S1 to S30 has a test whose name contains its id. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The rules, in a few words each. */
const RULES: Readonly<Record<string, string>> = {
  S1: 'programs come from the configuration file only',
  S2: 'one authentication for all routes',
  S3: 'policy and owners are checked on the resolved target',
  S4: 'values in URLs and headers are encoded or refused',
  S5: 'consent before a redirect to a third party',
  S6: 'request ids are rewritten per upstream call',
  S7: 'sessions are bound to their principal',
  S8: 'Origin and Host are checked',
  S9: 'only https URLs from upstreams, never opened or executed',
  S10: 'foreign schemas and templates are data',
  S11: 'supplied URLs reach public addresses only',
  S12: 'no token of a caller reaches an upstream',
  S13: 'JWTs are checked completely',
  S14: 'challenges name the metadata and the scope',
  S15: 'issuers are not mixed up',
  S16: 'Client ID Metadata Documents are fetched safely',
  S17: 'API keys are random, hashed, scoped, revocable',
  S18: 'secrets at rest are sealed',
  S19: 'headers agree with the body',
  S20: 'opaque values are authenticated',
  S21: 'definitions are pinned',
  S22: 'the output of tools is data',
  S23: 'limits per caller, tool and upstream',
  S24: 'the audit trail is chained and free of secrets',
  S25: 'errors reveal nothing about the inside',
  S26: 'administration is for administrators',
  S27: 'caches are kept apart per tenant',
  S28: 'few, locked dependencies without scripts',
  S29: 'files and memory of the process are private',
  S30: 'only registered upstreams are reached',
};

/** The names of all tests and groups of tests. */
function testNames(): string[] {
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.test.ts'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  return files
    .trim()
    .split('\n')
    .flatMap((file) => {
      const code = readFileSync(`${ROOT}/${file}`, 'utf8');
      // The name is the first argument, also after a table: `test.each([…])('S19: …'`.
      return [...code.matchAll(/\(\s*(['"`])((?:(?!\1).)*)\1/g)].map(([, , name]) => name!);
    });
}

const names = testNames();
const tested = (id: string): boolean => names.some((name) => new RegExp(`(?<![\\w-])${id}(?![\\w-])`).test(name));

test.each(Object.keys(RULES))('%s has a test', (id) => {
  expect(tested(id), `${id}: ${RULES[id]}`).toBe(true);
});
