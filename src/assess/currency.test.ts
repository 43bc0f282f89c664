/** A later revision of MCP in the registry, which a server speaks or does not speak yet. */
import { afterAll, expect, it, vi } from 'vitest';
import type { McpFixture as Fixture } from '../../test/fixtures/assess/mcp-server.js';
import type { Report } from './report/model.js';

const registered = vi.hoisted(() => ({ later: false }));

/** The registry with a later revision as soon as `registered.later` is true. */
vi.mock('../protocol/mcp/revisions/index.js', async (original) => {
  const registry = await original<typeof import('../protocol/mcp/revisions/index.js')>();
  const year = Number(registry.NEWEST.date.slice(0, 4)) + 1;
  const next = { ...registry.NEWEST, date: `${year}-01-01` };
  const added = () => (registered.later ? [next] : []);
  return {
    ...registry,
    get REVISIONS() {
      return [...registry.REVISIONS, ...added()];
    },
    get MODERN() {
      return [...registry.MODERN, ...added()];
    },
    get NEWEST() {
      return registered.later ? next : registry.NEWEST;
    },
  };
});

// Files of unit tests share their loaded modules. These are loaded anew, with the changed registry, and not kept.
vi.resetModules();
const { inProcess } = await import('../../test/fixtures/assess/in-process.js');
const { McpFixture } = await import('../../test/fixtures/assess/mcp-server.js');
const revisions = await import('../protocol/mcp/revisions/index.js');
const { assess } = await import('./assess.js');
const { profileOf } = await import('./profiles.js');
afterAll(() => void vi.resetModules());

/** Assesses the servers of one address: each speaks one revision. */
const assessed = (servers: readonly Fixture[], before?: Report): Promise<Report> =>
  assess({
    ...{ tool: 'test', profile: profileOf('founding')!, before, active: true },
    pace: { interval: 0, total: 60_000 },
    target: { kind: 'url', url: new URL('http://localhost/mcp') },
    client: inProcess((call) => {
      const version = call.headers['mcp-protocol-version'];
      return (servers.find(({ revision }) => revision.date === version) ?? servers[0]!).http(call);
    }),
  });

it('S1-72: a later revision in the registry lowers the score of an unchanged server until it speaks that revision', async () => {
  const today = await assessed([new McpFixture('E')]);
  const server = new McpFixture('E');
  registered.later = true;
  const unchanged = await assessed([server], today);
  // The score fell without a regression: no other requirement has another outcome.
  expect(unchanged.changes!.checks).toEqual([{ id: 'CUR-01', before: 'pass', after: 'fail' }]);
  expect(unchanged.score).toBeLessThan(today.score);
  const next = Object.assign(new McpFixture('E'), { revision: revisions.NEWEST });
  const implemented = await assessed([server, next], unchanged);
  expect(implemented.changes!.checks).toContainEqual({ id: 'CUR-01', before: 'fail', after: 'pass' });
  expect(implemented.score).toBeGreaterThanOrEqual(today.score);
});
