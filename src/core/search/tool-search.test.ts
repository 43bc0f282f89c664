import { expect, test } from 'vitest';
import { type Caller, GATEWAY, principalOf } from '../caller.js';
import type { Catalog } from '../catalog/catalog.js';
import type { Item } from '../catalog/server-list-cache.js';
import { ALL_SERVERS } from '../view.js';
import { describeFound, ToolSearch } from './tool-search.js';

interface FakePart {
  readonly server: string;
  readonly info?: object;
  readonly trust?: number;
  readonly tools: Readonly<Record<string, string>>;
}

/** A catalog of these servers, as the caller sees it. */
function searchOf(parts: readonly FakePart[]): ToolSearch {
  const shown = parts.map(({ server, info, trust = 1, tools }) => {
    const items = Object.entries(tools).map(
      ([key, description]) => ({ key, own: key, value: { name: key, description }, mirrored: [] }) as Item,
    );
    const snapshot = { items, byKey: new Map(items.map((item) => [item.key, item])) };
    return { server, snapshot, ttl: 0, varies: false, info, trust, hidden: new Set<string>() };
  });
  const catalog = {
    setOf: () => ({}),
    parts: () => Promise.resolve({ parts: shown, missing: [] }),
    clashes: () => new Set<string>(),
    isTaken: () => false,
    exposed: (_view: unknown, _method: unknown, server: string, name: string) => `${server}__${name}`,
    has: () => true,
  };
  return new ToolSearch(catalog as unknown as Catalog);
}

const names = async (search: ToolSearch, query: string): Promise<string[]> =>
  (await search.search(GATEWAY, ALL_SERVERS, { query, limit: 5 })).map(({ name }) => name);

test('a tool is found by the title and the description that its server gives itself', async () => {
  const search = searchOf([
    { server: 'a', tools: { search: 'Searches' } },
    {
      server: 'b',
      info: { name: 'arxiv-mcp', version: '1', title: 'Papers of arXiv', description: 'Scientific preprints' },
      tools: { search: 'Searches' },
    },
  ]);
  expect(await names(search, 'search papers')).toEqual(['b__search']);
  expect(await names(search, 'scientific preprints')).toEqual(['b__search']);
});

test('S27: at a server with an account per caller, concurrent searches find only the tools of their caller', async () => {
  const partOf = (name: string) => {
    const item = { key: name, own: name, value: { name, description: `Reads the notes of ${name}` }, mirrored: [] };
    const snapshot = { items: [item as Item], byKey: new Map([[name, item as Item]]) };
    return { server: 'notes', snapshot, ttl: 0, varies: false, trust: 1, hidden: new Set<string>() };
  };
  const set = {};
  const catalog = {
    setOf: () => set,
    parts: ({ principal }: Caller) => Promise.resolve({ parts: [partOf(principal.subject)], missing: [] }),
    clashes: () => new Set<string>(),
    isTaken: () => false,
    exposed: (_view: unknown, _method: unknown, _server: string, name: string) => name,
    has: () => true,
  };
  const search = new ToolSearch(catalog as unknown as Catalog);
  const callers = ['ada', 'ben', 'cleo'];
  const found = await Promise.all(
    callers.map((subject) =>
      search.search({ ...GATEWAY, principal: principalOf({ subject }) }, ALL_SERVERS, { query: 'notes', limit: 5 }),
    ),
  );
  expect(found.map((tools) => tools.map(({ name }) => name))).toEqual(callers.map((subject) => [subject]));
});

test('the trust of a server lowers the scores of its tools', async () => {
  const tools = { send_mail: 'Sends a mail to a recipient' };
  const others = { mail_sending: 'Mail to a recipient is sent' };
  const order = async (trust: number): Promise<string | undefined> =>
    (
      await names(
        searchOf([
          { server: 'a', trust, tools },
          { server: 'b', tools: others },
        ]),
        'send mail',
      )
    )[0];
  expect(await order(1)).toBe('a__send_mail');
  expect(await order(0.1)).toBe('b__mail_sending');
});

test('a result names the nearly equal tools that it stands for', async () => {
  const tools = { create_issue: 'Creates an issue in a repository' };
  const search = searchOf([
    { server: 'work', tools },
    { server: 'home', tools },
  ]);
  const [first, ...more] = await search.search(GATEWAY, ALL_SERVERS, { query: 'create an issue', limit: 5 });
  expect(more).toEqual([]);
  expect(describeFound(first!, false)).toMatchObject({ name: 'work__create_issue', alike: ['home__create_issue'] });
});

test('a server whose own description names every need does not enter unrelated results', async () => {
  const topics = ['calendar', 'invoice', 'ticket', 'photo', 'backup', 'deploy'];
  const honest = topics.map((topic) => ({
    server: topic,
    tools: Object.fromEntries(
      ['create', 'read', 'archive', 'share', 'export', 'count'].map((verb) => [
        `${verb}_${topic}`,
        `${verb} one ${topic}`,
      ]),
    ),
  }));
  const description = `${topics.join(' ')} create read archive share export count `.repeat(50);
  const stuffed = { server: 'x', info: { name: 'x', title: description, description }, tools: { best: 'Best tool' } };
  const search = searchOf([...honest, stuffed]);
  for (const topic of topics)
    for (const query of [`create a ${topic}`, `export one ${topic}`])
      expect(await names(search, query), query).not.toContain('x__best');
});
