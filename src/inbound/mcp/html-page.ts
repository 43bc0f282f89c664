import { createHash } from 'node:crypto';
import type { UpstreamState } from '../../core/upstream-monitor.js';
import type { InboundResponse } from '../http/response.js';
import { sendText } from '../http/send-body.js';
import type { ClientSnippet } from './client-snippets.js';

export interface PageTool {
  readonly name: string;
  readonly description: string;
}

/** The content of the page. All of it may come from untrusted parties, so every value is escaped. */
export interface Page {
  readonly version: string;
  /** The server or view that the page shows; undefined for all servers. */
  readonly server: string | undefined;
  /** Whether `server` is a configured view. */
  readonly isView?: boolean;
  /** The path prefix of the gateway, if a proxy serves the gateway below a prefix. */
  readonly root: string;
  readonly endpoints: readonly { readonly label: string; readonly address: string }[];
  readonly upstreams: readonly UpstreamState[];
  readonly tools: readonly PageTool[];
  /** The reason for a missing list of tools. */
  readonly toolsProblem: string | undefined;
  readonly snippets: readonly ClientSnippet[];
}

const STYLE = `
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--soft:#59636e;--line:#d1d9e0;--card:#f6f8fa;--link:#0550ae;
--up:#116329;--down:#a40e26;--starting:#7d4e00}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--soft:#9aa4af;--line:#3d444d;--card:#161b22;
--link:#79b8ff;--up:#56d364;--down:#ff8f88;--starting:#e3b341}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.75rem;margin:.5rem 0 0}
h2{font-size:1.15rem;margin:2.25rem 0 .5rem}
p{margin:.25rem 0 .75rem}
a{color:var(--link)}
.soft{color:var(--soft)}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.875rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.4rem .75rem .4rem 0;border-bottom:1px solid var(--line);
overflow-wrap:anywhere;unicode-bidi:isolate}
th{font-weight:600;font-size:.875rem;color:var(--soft)}
tbody th{color:var(--fg);font-size:1rem}
tbody th,.beside,.number{white-space:nowrap;width:1%;padding-right:1.5rem}
.number{text-align:right;font-variant-numeric:tabular-nums}
.state{white-space:nowrap;font-weight:600;overflow-wrap:normal}
.state::before{content:"";display:inline-block;width:.6rem;height:.6rem;margin-right:.4rem;border-radius:50%;
background:currentColor}
.up{color:var(--up)}.down{color:var(--down)}.starting{color:var(--starting)}
.starting::before{border:2px solid currentColor;background:none}
.down::before{border-radius:0}
details{border:1px solid var(--line);border-radius:6px;margin:.5rem 0;background:var(--card)}
summary{cursor:pointer;padding:.5rem .75rem;font-weight:600}
nav{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin:1rem 0 0}
details>*:not(summary){margin:0 .75rem .75rem}
pre{overflow-x:auto;padding:.75rem;background:var(--bg);border:1px solid var(--line);border-radius:6px;user-select:all}
dl{margin:0}dt{font-weight:600;overflow-wrap:anywhere}dd{margin:0 0 .75rem;overflow-wrap:anywhere;unicode-bidi:isolate}
.copy{user-select:all}
:focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:3px}
@media(max-width:40rem){
table.stack thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table.stack tr{display:block;padding:.5rem 0;border-bottom:1px solid var(--line)}
table.stack th,table.stack td{display:block;border:0;padding:.1rem 0;text-align:left}
table.stack th,table.stack td.beside{display:inline-block;margin-right:.75rem;width:auto}
table.stack td:empty{display:none}
table.stack td.number::after{content:" " attr(data-unit)}
}`;

/** Allows no script, no external resource and only the style above; no other page may show this page in a frame. */
export const PAGE_HEADERS: readonly string[] = [
  'Content-Security-Policy',
  [
    "default-src 'none'",
    `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'X-Content-Type-Options',
  'nosniff',
  'Referrer-Policy',
  'no-referrer',
  'Cache-Control',
  'no-store',
];

/** The same URL serves JSON to programs, so the response depends on the Accept header. */
export async function sendPage(res: InboundResponse, headers: readonly string[], page: Promise<string>): Promise<void> {
  sendText(res, 200, [...headers, ...PAGE_HEADERS, 'Vary', 'Accept'], 'text/html; charset=utf-8', await page);
}

/** Limits on the content of a page. The lists of the protocol have other limits. */
const MOST_TOOLS = 1_000;
const MOST_TEXT = 300;

export function htmlPage(page: Page): string {
  const { server, version } = page;
  const title = server === undefined ? 'Parley' : `${server} - Parley`;
  const intro =
    server === undefined
      ? 'This gateway puts MCP servers and A2A agents behind one endpoint. Every MCP and A2A version is served here.'
      : page.isView
        ? 'A selection of the servers of this gateway. Every MCP revision is served here.'
        : 'One server of this gateway, under its own names. Every MCP revision is served here.';
  const back = server === undefined ? '' : ` <a href="${escaped(page.root)}/mcp">All servers</a>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)}</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${escaped(server ?? 'Parley')}</h1>
<p class="soft">${intro} Version ${escaped(version)}.${health(page)}${back}</p>
${navigation(page)}
${endpoints(page)}
${upstreams(serversTitle(page), 'server', 'Tools', page)}
${upstreams('Agents', 'agent', 'Skills', page)}
${snippets(page)}
${tools(page)}
</main>
</body>
</html>
`;
}

/** Removes the server's name from a problem, because the row already shows it. */
function withoutName(problem: string, kind: string, name: string): string {
  const prefix = `${kind === 'server' ? 'Server' : 'Agent'} "${name}" `;
  return problem.startsWith(prefix) ? problem.slice(prefix.length) : problem;
}

function navigation(page: Page): string {
  const { upstreams, snippets } = page;
  const agents = upstreams.some(({ kind }) => kind === 'agent');
  const titles = [
    'Endpoints',
    serversTitle(page),
    ...(agents ? ['Agents'] : []),
    ...(snippets.length > 0 ? [CONNECT] : []),
    'Tools',
  ];
  const links = titles.map((title) => `<a href="#${idOf(title)}">${title}</a>`);
  return `<nav aria-label="Sections">${links.join('')}</nav>`;
}

/** The number of servers that are up, in one sentence. */
function health({ upstreams }: Page): string {
  const servers = upstreams.filter(({ kind }) => kind === 'server');
  const up = servers.filter(({ state }) => state === 'up').length;
  if (servers.length < 2) return '';
  return up === servers.length ? ` All ${up} servers are up.` : ` ${up} of ${servers.length} servers are up.`;
}

const serversTitle = ({ server, isView }: Page): string => (server === undefined || isView ? 'Servers' : 'Server');
const CONNECT = 'Connect a client';
const idOf = (title: string): string => title.toLowerCase().replaceAll(' ', '-');

function section(title: string, body: string): string {
  const id = idOf(title);
  return `<section aria-labelledby="${id}">\n<h2 id="${id}">${escaped(title)}</h2>\n${body}\n</section>`;
}

function endpoints({ endpoints }: Page): string {
  const rows = endpoints.map(
    ({ label, address }) =>
      `<tr><th scope="row">${escaped(label)}</th><td><code class="copy">${escaped(address)}</code></td></tr>`,
  );
  return section('Endpoints', `<table class="stack">\n<tbody>\n${rows.join('\n')}\n</tbody>\n</table>`);
}

function upstreams(
  title: string,
  kind: UpstreamState['kind'],
  unit: string,
  { upstreams, server, isView, root }: Page,
): string {
  const shown = upstreams.filter((upstream) => upstream.kind === kind);
  if (shown.length === 0) return kind === 'server' ? section(title, '<p>There are no servers.</p>') : '';
  const rows = shown.map(({ name, state, count, problem }) => {
    const path =
      kind === 'server'
        ? `${root}/mcp/${encodeURIComponent(name)}`
        : `${root}/a2a/${encodeURIComponent(name)}/.well-known/agent-card.json`;
    const label = server === name && !isView ? escaped(name) : `<a href="${escaped(path)}">${escaped(name)}</a>`;
    return [
      `<tr><th scope="row">${label}</th>`,
      `<td class="beside"><span class="state ${state}">${state}</span></td>`,
      `<td class="number" data-unit="${unit.toLowerCase()}">${count ?? ''}</td>`,
      `<td>${problem === undefined ? '' : escaped(bounded(withoutName(problem, kind, name)))}</td></tr>`,
    ].join('');
  });
  const head = `<tr><th scope="col">Name</th><th scope="col">State</th><th scope="col" class="number">${unit}</th><th scope="col">Problem</th></tr>`;
  return section(
    title,
    `<table class="stack">\n<thead>${head}</thead>\n<tbody>\n${rows.join('\n')}\n</tbody>\n</table>`,
  );
}

function snippets({ snippets }: Page): string {
  const parts = snippets.map(({ title, file, install, text }, index) => {
    const note = [
      file === undefined ? '' : `In <code>${escaped(file)}</code>:`,
      install === undefined ? '' : `Install with <code class="copy">${escaped(install)}</code>`,
    ].filter((line) => line !== '');
    return [
      `<details${index === 0 ? ' open' : ''}><summary>${escaped(title)}</summary>`,
      ...note.map((line) => `<p>${line}</p>`),
      // A scrolling region must be reachable with the keyboard.
      `<pre tabindex="0" role="region" aria-label="${escaped(`Configuration for ${title}`)}"><code>${escaped(text)}</code></pre></details>`,
    ].join('\n');
  });
  return parts.length === 0 ? '' : section(CONNECT, parts.join('\n'));
}

function tools({ tools, toolsProblem }: Page): string {
  if (toolsProblem !== undefined) return section('Tools', `<p>${escaped(bounded(toolsProblem))}</p>`);
  if (tools.length === 0) return section('Tools', '<p>There are no tools.</p>');
  const rows = tools
    .slice(0, MOST_TOOLS)
    .map(
      ({ name, description }) =>
        `<dt><code>${escaped(bounded(name))}</code></dt><dd>${escaped(bounded(description))}</dd>`,
    );
  const more = tools.length > MOST_TOOLS ? `<p>And ${tools.length - MOST_TOOLS} more.</p>` : '';
  return section(
    'Tools',
    `<details><summary>${tools.length} tool${tools.length === 1 ? '' : 's'}</summary>\n<dl>\n${rows.join('\n')}\n</dl>${more}</details>`,
  );
}

function bounded(text: string): string {
  return text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT).trimEnd()} ...` : text;
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Text for an element or a quoted attribute. Characters that control a terminal or the text direction are replaced. */
export function escaped(text: string): string {
  return text.replace(
    /[&<>"'\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (char) => ENTITIES[char] ?? '\ufffd',
  );
}
