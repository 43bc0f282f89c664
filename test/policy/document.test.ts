/**
 * docs/policy.md: every condition compiles, the table of variables is complete, and the examples do what the page says.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { configFrom } from '../../src/config/load.js';
import { Condition } from '../../src/identity/policy/condition.js';
import { VARIABLES } from '../../src/identity/policy/variables.js';
import { BIN } from '../support/gateway.js';

const page = readFileSync(new URL('../../docs/policy.md', import.meta.url), 'utf8');
const blocks = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, text]) => parse(text!) as Record<string, unknown>);
const [rules, cases, limits] = blocks as [object, { cases: object[] }, object];

test('the table has every variable with its type and description', () => {
  for (const { name, type, description } of VARIABLES)
    expect(page).toContain(`| \`${name}\` | ${type} | ${description} |`);
});

const table = page.slice(page.indexOf('| to express |'));
const conditions = [...table.slice(0, table.indexOf('\n\n')).matchAll(/^\| [^|]+ \| `(.+)` \|$/gm)].map(([, text]) =>
  text!.replaceAll('\\|', '|'),
);

test('the table of conditions is read', () => expect(conditions.length).toBeGreaterThan(10));
test.each(conditions)('%s compiles', (condition) => void Condition.parse(condition));

test('the examples of rules and limits are valid', () => {
  expect(() => configFrom({ servers: {}, ...rules, ...limits })).not.toThrow();
});

describe('the commands', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'parley-policy-page-'));
    const servers = { files: { url: 'http://127.0.0.1:9/mcp' }, payroll: { url: 'http://127.0.0.1:9/mcp' } };
    writeFileSync(join(folder, 'parley.yaml'), stringify({ servers, ...rules }), { mode: 0o600 });
    writeFileSync(join(folder, 'cases.yaml'), stringify(cases));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const run = async (...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> => {
    try {
      return { code: 0, ...(await promisify(execFile)(process.execPath, [BIN, ...args], { cwd: folder })) };
    } catch (error) {
      return error as { code: number; stdout: string; stderr: string };
    }
  };

  test('policy test passes the cases of the page, and fails on a wrong one', async () => {
    expect(await run('policy', 'test', 'cases.yaml')).toMatchObject({ code: 0, stdout: '3 of 3 cases passed\n' });
    const wrong = [{ ...cases.cases[1], name: 'wrong', expect: 'allow' }];
    writeFileSync(join(folder, 'wrong.yaml'), stringify({ cases: wrong }));
    expect(await run('policy', 'test', 'wrong.yaml')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(
        'FAILED wrong: expected allow by "no writing outside the workspace", got deny by',
      ),
    });
    const json = await run('policy', 'test', 'wrong.yaml', '--json');
    expect(JSON.parse(json.stdout)).toMatchObject({ ok: false, cases: [{ name: 'wrong', passed: false }] });
  });

  test.each([
    ['cases: []', 'has no cases'],
    ['cases: [{ caller: ada, tool: files__x }]', 'case 1 needs expect'],
    ['cases: [{ caller: ada, tol: x, expect: allow }]', 'unknown key "tol"'],
    ['cases: [{ caller: ada, tool: nowhere__x, expect: allow }]', 'names no configured server'],
  ])('policy test refuses %s', async (text, message) => {
    writeFileSync(join(folder, 'bad.yaml'), text);
    const { code, stderr } = await run('policy', 'test', 'bad.yaml');
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  test('policy explain names the rule and the value of each part', async () => {
    const args = ['policy', 'explain', 'ada', 'files__write_file', '--args', '{"path":"/etc/passwd"}'];
    const { stdout } = await run(...args);
    expect(stdout).toContain('deny: rule "no writing outside the workspace"');
    expect(stdout).toContain('"admin" in caller.roles  =  false');
    expect(stdout).toContain('args.path.startsWith("/workspace/")  =  false');
    expect(JSON.parse((await run(...args, '--json')).stdout)).toMatchObject({
      ...{ effect: 'deny', rule: 'no writing outside the workspace', visible: true, enforced: true },
      rules: [{ decides: false }, { decides: true }],
    });
    const admin = await run('policy', 'explain', '{"subject":"eve","roles":["admin"]}', 'payroll__x');
    expect(admin.stdout).toContain('allow: rule "administrators"');
    const hidden = await run('policy', 'explain', 'bob', 'payroll__x');
    expect(hidden.stdout).toMatch(/deny: no rule matches.*does not see the tool/s);
    expect((await run('policy', 'explain', 'bob', 'files__x', '--args', 'no')).stderr).toContain(
      '--args is not a JSON',
    );
  });
});
