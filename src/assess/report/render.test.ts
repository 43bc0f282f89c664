/** Reports on several targets, on none, and on a target to which no requirement applies. */
import { expect, it } from 'vitest';
import { assessFixture } from '../../../test/fixtures/assess/assess-fixture.js';
import { MCP_FAULTS } from '../../../test/fixtures/assess/mcp-faults.js';
import type { Profile } from '../profiles.js';
import type { Report } from './model.js';
import { render } from './render.js';

const [, , FAULT] = MCP_FAULTS.find(([letter, transport]) => letter === 'D' && transport === 'http')!;

it('several targets are one list, one page, one set of suites, and the badge of the lowest score', async () => {
  const good: Report = { ...(await assessFixture('D', 'http')), target: 'http://a.example/mcp' };
  const bad: Report = { ...(await assessFixture('D', 'http', FAULT)), target: 'http://b.example/<mcp>' };
  const both = [good, bad];
  expect(JSON.parse(render(both, 'json'))).toEqual(JSON.parse(JSON.stringify(both)));
  expect(JSON.parse(render([good], 'json'))).toEqual(JSON.parse(JSON.stringify(good)));
  const junit = render(both, 'junit');
  expect(junit.match(/<\?xml/g)).toHaveLength(1);
  expect([...junit.matchAll(/<testsuite name="([^"]*)"/g)].map(([, name]) => name)).toEqual([
    'MCP http://a.example/mcp',
    'MCP http://b.example/&lt;mcp&gt;',
  ]);
  const page = render(both, 'html');
  expect(page.match(/<!doctype/g)).toHaveLength(1);
  const ids = [...page.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);
  expect(new Set(ids).size).toBe(ids.length);
  for (const [, target] of page.matchAll(/ href="#([^"]*)"/g)) expect(ids).toContain(target);
  expect(render(both, 'badge')).toBe(render(bad, 'badge'));
  for (const { target } of both) expect(render(both, 'text')).toContain(target);
});

const NOTHING: Profile = {
  name: 'nothing',
  description: '',
  categories: { MCP: [{ name: 'None', weight: 100, has: ({ id }) => id === 'AUR-01a' }], A2A: [] },
};

it('a profile of which nothing applies gives no grade, and says so in every format', async () => {
  const report = await assessFixture('D', 'stdio', undefined, {}, { profile: NOTHING });
  expect(report).toMatchObject({ score: 0, complete: false });
  expect(report.notes.join()).toContain('No requirement of the profile nothing applies');
  for (const format of ['text', 'markdown', 'html', 'junit', 'json'] as const)
    expect(render(report, format)).toContain('No requirement of the profile nothing applies');
  expect(render(report, 'junit')).toContain('<error message=');
  expect(render(await assessFixture('D', 'stdio'), 'junit')).not.toContain('<error');
});
