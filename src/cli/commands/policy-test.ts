import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parse } from 'yaml';
import type { CaseResult } from '../../app/commands/policy-cases.js';
import { loadConfig } from '../../config/load.js';
import { CONFIG, type Command, HELP, JSON_OUTPUT, UsageError } from '../command.js';

export const POLICY_TEST: Command = {
  name: 'policy test',
  operands: ['FILE'],
  summary: 'Check the rules of the policy against cases.',
  details:
    'Reads cases from a YAML or JSON file: { cases: [{ caller, server, tool, arguments, expect }] }. expect is allow, deny,\n' +
    'approve or hidden. Prints each case whose result differs. The exit code is 0 if every case passes and 1 otherwise.\n' +
    'No server is contacted; annotations of a tool are part of the case.',
  flags: [CONFIG, JSON_OUTPUT, HELP],
  examples: [
    'parley policy test policy-cases.yaml',
    'parley policy test policy-cases.yaml --config parley.yaml --json',
  ],
  run: async ({ io, operands: [file = ''], text, given }) => {
    const { config } = loadConfig({ ...io, file: text('config') });
    const { PolicyCases, CaseError } = await import('../../app/commands/policy-cases.js');
    let results: CaseResult[];
    try {
      results = new PolicyCases(config).test(casesIn(resolve(io.cwd, file)));
    } catch (error) {
      if (error instanceof CaseError) throw new UsageError(`${file}: ${error.message}`, POLICY_TEST);
      throw error;
    }
    const failed = results.filter(({ passed }) => !passed);
    if (given('json')) io.stdout(`${JSON.stringify({ ok: failed.length === 0, cases: results }, null, 2)}\n`);
    else {
      for (const { name, expected, got } of failed) io.stdout(`FAILED ${name}: expected ${expected}, got ${got}\n`);
      io.stdout(`${results.length - failed.length} of ${results.length} cases passed\n`);
    }
    return failed.length === 0 ? 0 : 1;
  },
};

function casesIn(file: string): unknown[] {
  let content: unknown;
  try {
    content = parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}`, POLICY_TEST);
  }
  const cases = Array.isArray(content) ? content : (content as { cases?: unknown } | null)?.cases;
  if (Array.isArray(cases) && cases.length > 0) return cases;
  throw new UsageError(`${file} has no cases; write cases: [{ caller: ada, tool: …, expect: allow }]`, POLICY_TEST);
}
