import type { RequestContext, Route } from '../http/route.js';
import { sendText } from '../http/send-body.js';
import { type Html, html } from '../oauth/html.js';
import { pageHeaders } from '../oauth/page-response.js';
import { openApiOf, tagOf } from './openapi.js';
import { PROBLEM_ERRORS } from './problem-errors.js';

/** The style sheet of the page. It loads nothing, and long lines scroll inside of their box on a phone. */
const STYLE = `:root { color-scheme: light dark; --text: #1b1f24; --muted: #57606a; --page: #fff; --line: #d0d7de; --strong: #0b57d0; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --muted: #9da7b1; --page: #0d1117; --line: #3d444d; --strong: #a8c7fa; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; background: var(--page); color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
a { color: var(--strong); }
nav ul { display: flex; flex-wrap: wrap; gap: .5rem 1rem; padding: 0; list-style: none; }
details { border-top: 1px solid var(--line); }
summary { padding: .75rem 0; min-height: 2.75rem; cursor: pointer; overflow-wrap: anywhere; }
code, pre { font: .875rem/1.5 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid var(--line); border-radius: .5rem; }
dt { font-weight: 600; overflow-wrap: anywhere; }
dd { margin: 0 0 .5rem; color: var(--muted); }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700; }
.muted { color: var(--muted); }
.skip { position: absolute; left: -99rem; }
.skip:focus { position: static; }
:focus-visible { outline: 3px solid var(--strong); outline-offset: 2px; }
`;

/** Serves the OpenAPI document of all routes, and a page for people. Both are made once, from the route table. */
export class ApiDocs {
  private texts: { readonly document: string; readonly page: string } | undefined;

  constructor(
    private readonly version: string,
    private readonly table: () => readonly Route[],
  ) {}

  routes(): Route[] {
    const route = { method: 'GET', access: 'public', errors: PROBLEM_ERRORS } as const;
    const responses = { '200': { description: 'The document' } };
    const api = { tag: 'Management', responses };
    return [
      {
        ...route,
        api,
        path: '/openapi.json',
        description: 'The OpenAPI document of all routes',
        handle: (context) => this.send(context, 'application/json', this.made().document),
      },
      {
        ...route,
        api,
        path: '/docs',
        description: 'All routes as a page for people',
        handle: ({ res, headers }) => res.sendText(200, [...headers, ...pageHeaders()], this.made().page),
      },
      {
        ...route,
        api,
        path: '/docs/style.css',
        description: 'The style sheet of the page with all routes',
        handle: (context) => this.send(context, 'text/css; charset=utf-8', STYLE),
      },
    ];
  }

  private send({ res, headers }: RequestContext, type: string, text: string): void {
    sendText(res, 200, [...headers, 'Cache-Control', 'no-cache', 'X-Content-Type-Options', 'nosniff'], type, text);
  }

  private made(): { readonly document: string; readonly page: string } {
    const routes = this.table();
    this.texts ??= {
      document: JSON.stringify(openApiOf(routes, this.version)),
      page: pageOf(routes, this.version).text,
    };
    return this.texts;
  }
}

const idOf = (tag: string): string => tag.toLowerCase().replace(/[^a-z0-9]+/g, '-');

function pageOf(routes: readonly Route[], version: string): Html {
  const tags = [...new Set(routes.map(tagOf))].sort();
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Parley API</title>
<link rel="stylesheet" href="/docs/style.css">
</head>
<body>
<a class="skip" href="#routes">Skip to the routes</a>
<header>
<h1>Parley API</h1>
<p>Version ${version}. Programs read <a href="/openapi.json">the OpenAPI document</a>. Send a token or an API key as
<code>Authorization: Bearer …</code>. Errors of the management API are problem details (RFC 9457).</p>
</header>
<nav aria-label="Groups of routes"><ul>${tags.map((tag) => html`<li><a href="#${idOf(tag)}">${tag}</a></li>`)}</ul></nav>
<main id="routes">
${tags.map(
  (tag) => html`<section aria-labelledby="${idOf(tag)}">
<h2 id="${idOf(tag)}">${tag}</h2>
${routes.filter((route) => tagOf(route) === tag).map(routeHtml)}
</section>
`,
)}
</main>
</body>
</html>
`;
}

function routeHtml({ method, path, access, description, api }: Route): Html {
  const named = [
    ...Object.entries(api?.query ?? {}).map(([name, { description: said }]) => [`?${name}`, said] as const),
    ...Object.entries(api?.headers ?? {}),
  ];
  return html`<details>
<summary><span class="method">${method}</span> <code>${path}</code><br>${description}</summary>
<p class="muted">Access: ${access}</p>
${named.length > 0 && html`<dl>${named.map(([name, said]) => html`<dt><code>${name}</code></dt><dd>${said}</dd>`)}</dl>`}
${api?.body && html`<p>Body</p><pre tabindex="0">${linesOf(api.body.schema)}</pre>`}
${
  api &&
  html`<dl>${Object.entries(api.responses).map(([status, { description: said }]) => html`<dt>${status}</dt><dd>${said}</dd>`)}</dl>`
}
</details>
`;
}

/** Writes line by line, because escaping a value replaces its line breaks. */
const linesOf = (value: unknown): Html[] =>
  JSON.stringify(value, null, 2)
    .split('\n')
    .map((line) => html`${line}\n`);
