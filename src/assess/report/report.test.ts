/** The facts that every report states: categories with a total, methods, specifications, build, and changes. */
import { expect, it } from 'vitest';
import { assessFixture } from '../../../test/fixtures/assess/assess-fixture.js';
import { MCP_FAULTS } from '../../../test/fixtures/assess/mcp-faults.js';
import { methodsOf } from '../../protocol/mcp/methods.js';
import { NEWEST, NEWEST_LEGACY } from '../../protocol/mcp/revisions/index.js';
import { PLAIN } from '../../telemetry/terminal-style.js';
import { MCP_REQUIREMENTS } from '../mcp/requirements.js';
import { profileOf } from '../profiles.js';
import { htmlReport } from './html.js';
import { markdownReport } from './markdown.js';
import { scoreHistory } from './model.js';
import { textReport } from './text.js';

const TOOL = 'parley 1.2.3, commit 0123456789abcdef0123456789abcdef01234567';
const TEN = profileOf('first-review')!;
const [, , FAULT] = MCP_FAULTS.find(([letter, transport]) => letter === 'D' && transport === 'http')!;

it('S0-57: prints ten categories, and a total that can be computed from them', async () => {
  const report = await assessFixture('D', 'http', FAULT, { omit: ['prompts'] }, { profile: TEN });
  const [section] = report.sections;
  const printed = textReport(report, PLAIN);
  const rows = [...printed.matchAll(/^ *(\w[\w ]+?) {2,}([\d.]+) of 10, (\d+) of (\d+) \(weight ([\d.]+)\)$/gm)];
  const absent = [...printed.matchAll(/^ *(\w[\w ]+?) {2,}not applicable \(weight [\d.]+\)$/gm)];
  expect([...rows, ...absent].map(([, name]) => name).sort()).toEqual(
    TEN.categories.MCP.map(({ name }) => name).sort(),
  );
  expect(TEN.categories.MCP).toHaveLength(10);
  const weights = rows.reduce((sum, [, , , , , weight]) => sum + Number(weight), 0);
  const total = rows.reduce(
    (sum, [, , , passed, of, weight]) => sum + (Number(weight) * Number(passed)) / Number(of),
    0,
  );
  expect(Math.round((1_000 * total) / weights) / 10).toBe(section!.uncapped);
  for (const [, , score, passed, of] of rows) expect(Number(score)).toBeCloseTo((10 * Number(passed)) / Number(of), 1);
  // The total that is printed is the one before the cap, if failures of MUST cap the score.
  expect(section!.uncapped).toBeLessThan(100);
  expect(printed).toContain(
    section!.score < section!.uncapped ? `capped from ${section!.uncapped}` : `MCP: ${section!.uncapped}`,
  );
});

it('S0-57: counts no requirement in two of the ten categories', () => {
  for (const requirement of MCP_REQUIREMENTS)
    expect(TEN.categories.MCP.filter(({ has }) => has(requirement)).length, requirement.id).toBeLessThanOrEqual(1);
});

it('S1-27: prints how many methods of the dispatch table the server serves, and which it does not', async () => {
  const report = await assessFixture('D', 'http', undefined, { omit: ['prompts'] });
  const { methods } = report.sections[0]!;
  const table = methodsOf(NEWEST_LEGACY);
  expect(Object.keys(methods)).toEqual([...table].sort());
  expect(methods).toMatchObject({ 'tools/list': true, 'tools/call': true, 'prompts/list': false });
  const served = Object.values(methods).filter((each) => each === true).length;
  const coverage = `${served} of ${table.length} methods served`;
  const printed = textReport(report, PLAIN);
  expect(printed).toContain(coverage);
  expect(/Not served: (.*)\.$/m.exec(printed)?.[1]?.split(', ')).toContain('prompts/list');
  expect(markdownReport(report)).toMatch(new RegExp(`${coverage}.*✗ \`prompts/list\`.*✓ \`tools/call\``));
  expect(htmlReport(report)).toContain(coverage);
});

it('S1-71: keeps earlier scores, and shows the difference and its reasons', async () => {
  const first = await assessFixture('D', 'http');
  const second = await assessFixture('D', 'http', FAULT, {}, { before: first });
  const third = await assessFixture('D', 'http', undefined, {}, { before: second });
  expect(second.score).toBeLessThan(first.score);
  expect(third.score).toBe(first.score);
  const difference = Math.round((first.score - second.score) * 10) / 10;
  const reason = `${FAULT.row}: pass -> fail`;
  expect(textReport(second, PLAIN)).toContain(
    `Since the last report: ${first.score} -> ${second.score} (-${difference})`,
  );
  expect(textReport(second, PLAIN)).toContain(reason);
  expect(scoreHistory(third.changes!, third.score)).toBe(`${first.score} -> ${second.score} -> ${third.score}`);
  expect(third.changes!.checks).toContainEqual({ id: FAULT.row, before: 'fail', after: 'pass' });
  const arrows = `${second.score} → ${third.score} (+${difference}). History: ${first.score} → ${second.score} → ${third.score}.`;
  // An earlier report is a file that anybody may have written.
  const forged = { ...first, score: '<script>' as unknown as number };
  const compared = await assessFixture('D', 'http', undefined, {}, { before: forged });
  expect(htmlReport(compared)).not.toContain('<script');
  expect(markdownReport(third)).toContain(arrows);
  expect(htmlReport(third)).toContain(arrows);
});

it('S1-84: names the specifications with their addresses, and the build that made it', async () => {
  for (const [letter, { date }] of [
    ['D', NEWEST_LEGACY],
    ['E', NEWEST],
  ] as const) {
    const report = await assessFixture(letter, 'http', undefined, {}, { tool: TOOL });
    const url = `https://modelcontextprotocol.io/specification/${date}`;
    expect(report.sections[0]!.specifications).toEqual([{ version: date, url }]);
    expect(report.tool).toBe(TOOL);
    for (const written of [textReport(report, PLAIN), markdownReport(report)]) {
      expect(written).toContain(`MCP ${date} (${url})`);
      expect(written).toContain(TOOL);
    }
    expect(htmlReport(report)).toContain(`<a href="${url}">${date}</a>`);
    expect(htmlReport(report)).toContain(TOOL);
  }
});
