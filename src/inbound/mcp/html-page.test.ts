import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { UpstreamState } from '../../core/upstream-monitor.js';
import { clientSnippets } from './client-snippets.js';
import { escaped, htmlPage, PAGE_HEADERS, type Page } from './html-page.js';

const UPSTREAMS: readonly UpstreamState[] = [
  { kind: 'server', name: 'weather', state: 'up', since: 0, count: 3, took: 120 },
  {
    kind: 'server',
    name: 'gone',
    state: 'down',
    since: 0,
    problem: 'Server "gone" cannot be reached: connection refused',
  },
  { kind: 'server', name: 'slow', state: 'starting', since: 0 },
  { kind: 'agent', name: 'planner', state: 'up', since: 0, count: 1 },
];

const PAGE: Page = {
  version: '0.1.0',
  server: undefined,
  root: '',
  endpoints: [{ label: 'MCP', address: 'http://127.0.0.1:4600/mcp' }],
  upstreams: UPSTREAMS,
  tools: [{ name: 'weather__forecast', description: 'Tells the weather' }],
  toolsProblem: undefined,
  snippets: clientSnippets('http://127.0.0.1:4600/mcp'),
};

const HOSTILE = `"><script>alert('x')</script>&\u202e\u001b`;
const text = (html: string): string => html.replace(/<style>[\s\S]*?<\/style>/, '').replace(/<[^>]*>/g, '');

describe('the page', () => {
  const html = htmlPage(PAGE);

  test('shows endpoints, servers and agents with their state, clients and tools', () => {
    expect(html).toContain('<code class="copy">http://127.0.0.1:4600/mcp</code>');
    expect(html).toContain('<a href="/mcp/weather">weather</a>');
    expect(html).toContain('<a href="/a2a/planner/.well-known/agent-card.json">planner</a>');
    expect(html).toContain('<span class="state down">down</span>');
    expect(html).toContain('<span class="state starting">starting</span>');
    expect(html).toContain('<td>cannot be reached: connection refused</td>');
    expect(html).toContain('1 of 3 servers are up.');
    expect(html).toContain('<dt><code>weather__forecast</code></dt><dd>Tells the weather</dd>');
    for (const { title, text } of PAGE.snippets) {
      expect(html).toContain(`<summary>${title}</summary>`);
      expect(html).toContain(escaped(text));
    }
  });

  test('S26: has no script and loads nothing from other hosts', () => {
    expect(html).not.toMatch(/<script|<iframe|<object|<form|\son\w+=|javascript:/i);
    expect([...html.matchAll(/\b(?:href|src)="([^"]*)"/g)].map(([, url]) => url)).not.toContainEqual(
      expect.stringMatching(/^(?!\/|#|data:,)/),
    );
  });

  test('every link within the page has a target', () => {
    const links = [...html.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id!);
    expect(links.length).toBeGreaterThan(3);
    for (const id of links) expect(html).toContain(`id="${id}"`);
  });

  test('S26: its policy allows its own style and nothing else', () => {
    const style = /<style>([\s\S]*?)<\/style>/.exec(html)![1]!;
    const digest = createHash('sha256').update(style).digest('base64');
    const policy = PAGE_HEADERS[PAGE_HEADERS.indexOf('Content-Security-Policy') + 1]!;
    expect(policy).toBe(
      `default-src 'none'; style-src 'sha256-${digest}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    );
    expect(html).not.toMatch(/\sstyle=/);
  });

  test('escapes all values', () => {
    const hostile = htmlPage({
      version: HOSTILE,
      server: HOSTILE,
      root: HOSTILE,
      endpoints: [{ label: HOSTILE, address: HOSTILE }],
      upstreams: (['server', 'agent'] as const).map((kind) => ({
        kind,
        name: HOSTILE,
        state: 'down',
        since: 0,
        problem: HOSTILE,
      })),
      tools: [{ name: HOSTILE, description: HOSTILE }],
      toolsProblem: undefined,
      snippets: [{ id: 'cursor', title: HOSTILE, language: 'json', file: HOSTILE, install: HOSTILE, text: HOSTILE }],
    });
    expect(hostile).not.toMatch(/<script|alert\('/);
    expect(hostile).not.toMatch(/[\u202e\u001b]/);
    // The values add no tag or attribute: the tags equal those of a page with harmless content.
    const tags = (page: string): string[] =>
      [...page.matchAll(/<[a-z/!][^<>]*>/gi)].map(([tag]) => tag.split(/[\s>]/)[0]!);
    const harmless = htmlPage({
      ...PAGE,
      server: 'x',
      endpoints: [{ label: 'x', address: 'x' }],
      upstreams: (['server', 'agent'] as const).map((kind) => ({
        kind,
        name: 'y',
        state: 'down',
        since: 0,
        problem: 'x',
      })),
      tools: [{ name: 'x', description: 'x' }],
      snippets: [{ id: 'cursor', title: 'x', language: 'json', file: 'x', install: 'x', text: 'x' }],
    });
    expect(tags(hostile).filter((tag) => tag !== '<a' && tag !== '</a')).toEqual(
      tags(harmless).filter((tag) => tag !== '<a' && tag !== '</a'),
    );
    expect(text(hostile)).toContain(`&quot;&gt;&lt;script&gt;`);
  });

  test('is bounded with any number of tools and any length of descriptions', () => {
    const tools = Array.from({ length: 20_000 }, (_, index) => ({
      name: `t${index}`,
      description: 'x'.repeat(10_000),
    }));
    const large = htmlPage({ ...PAGE, tools });
    expect(large.length).toBeLessThan(1_000_000);
    expect(large).toContain('And 19000 more.');
  });

  test('of one server links to the page of all servers, also below the path of a proxy', () => {
    const one = htmlPage({ ...PAGE, server: 'weather', root: '/gateway', upstreams: UPSTREAMS.slice(0, 1) });
    expect(one).toContain('<a href="/gateway/mcp">All servers</a>');
    expect(one).toContain('<title>weather - Parley</title>');
    expect(one).not.toContain('id="agents"');
  });

  test('shows why there are no tools', () => {
    expect(htmlPage({ ...PAGE, tools: [], toolsProblem: 'it is unavailable' })).toContain('<p>it is unavailable</p>');
    expect(htmlPage({ ...PAGE, tools: [] })).toContain('There are no tools.');
    expect(htmlPage({ ...PAGE, upstreams: [] })).toContain('There are no servers.');
  });
});

describe('the colors', () => {
  const style = /<style>([\s\S]*?)<\/style>/.exec(htmlPage(PAGE))![1]!;
  const [light, dark] = [...style.matchAll(/:root\{([^}]*)\}/g)].map(([, body]) =>
    Object.fromEntries([...body!.matchAll(/--(\w+):(#[\da-f]+)/g)].map(([, name, color]) => [name, color!])),
  );

  function luminance(color: string): number {
    const hex = color.length === 4 ? color.replace(/[\da-f]/g, '$&$&') : color;
    const [red, green, blue] = [1, 3, 5].map((at) => {
      const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    }) as [number, number, number];
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }

  test.each([
    ['light', light!],
    ['dark', dark!],
  ])('are readable on a %s background (WCAG AA)', (_, colors) => {
    for (const name of ['fg', 'soft', 'link', 'up', 'down', 'starting']) {
      for (const ground of ['bg', 'card']) {
        const [high, low] = [luminance(colors[name]!), luminance(colors[ground]!)].sort((a, b) => b - a);
        expect((high! + 0.05) / (low! + 0.05), `${name} on ${ground}`).toBeGreaterThanOrEqual(4.5);
      }
    }
  });
});
