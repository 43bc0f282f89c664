/** The pages on which users sign in at upstreams: plain HTML, without scripts and without content of third parties. */
import { createHash } from 'node:crypto';

const STYLE = `
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--soft:#59636e;--line:#d1d9e0;--card:#f6f8fa;--button:#0550ae;--on:#fff}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--soft:#9aa4af;--line:#3d444d;--card:#161b22;
--button:#79b8ff;--on:#0d1117}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:34rem;margin:0 auto;padding:2rem 1rem 4rem}
h1{font-size:1.5rem;margin:0 0 1rem}
p{margin:.5rem 0}
dl{margin:1rem 0;padding:1rem;border:1px solid var(--line);border-radius:6px;background:var(--card)}
dt{color:var(--soft);font-size:.875rem}
dd{margin:0 0 .75rem;font-weight:600;overflow-wrap:anywhere;unicode-bidi:isolate}
dd:last-child{margin-bottom:0}
.soft{color:var(--soft)}
label{display:block;font-weight:600;margin:1rem 0 .25rem}
input[type=text]{font:inherit;width:100%;padding:.5rem .75rem;border:1px solid var(--line);border-radius:6px;
background:var(--bg);color:var(--fg);letter-spacing:.1em}
button,.button{display:inline-block;font:inherit;font-weight:600;margin:1rem 0 0;padding:.5rem 1.25rem;border:0;
border-radius:6px;background:var(--button);color:var(--on);cursor:pointer;text-decoration:none}
:focus-visible{outline:3px solid var(--button);outline-offset:2px;border-radius:3px}
`;

/**
 * Allows no script, no resource of another origin and no frame. The referrer policy is `same-origin` and not
 * `no-referrer`, because browsers send `Origin: null` with forms of pages that have no referrer.
 */
export const CONNECT_HEADERS: readonly string[] = [
  'Content-Security-Policy',
  [
    "default-src 'none'",
    `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
    'img-src data:',
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; '),
  'X-Content-Type-Options',
  'nosniff',
  'X-Frame-Options',
  'DENY',
  'Referrer-Policy',
  'same-origin',
  'Cache-Control',
  'no-store',
];

export const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

export interface ConsentPage {
  /** "server" or "agent". */
  readonly kind: string;
  readonly name: string;
  readonly user: string;
  /** The host of the authorization server. */
  readonly issuer: string;
  readonly scope: string | undefined;
  /** The path that the form is sent to. */
  readonly action: string;
  readonly fields: Readonly<Record<string, string>>;
  /** Whether the user has to repeat the code that the client shows. */
  readonly needsCode: boolean;
  /** Why the last attempt failed. */
  readonly problem: string | undefined;
}

/** Asks the user before the browser goes to the authorization server (S5). */
export function consentPage(page: ConsentPage): string {
  const { kind, name, user, issuer, scope, action, fields, needsCode, problem } = page;
  const hidden = Object.entries(fields).map(
    ([field, value]) => `<input type="hidden" name="${escaped(field)}" value="${escaped(value)}">`,
  );
  const code = needsCode
    ? `<label for="code">The code that your client shows</label>
<input id="code" name="code" type="text" autocomplete="off" autocapitalize="characters" spellcheck="false" required autofocus>`
    : '';
  return document(
    `Sign in to ${name}`,
    `${problem === undefined ? '' : `<p role="alert"><strong>${escaped(problem)}</strong></p>`}
<p>A client asked this gateway to use the ${escaped(kind)} below with your account there.</p>
<dl>
<dt>${kind === 'agent' ? 'Agent' : 'Server'}</dt><dd>${escaped(name)}</dd>
<dt>You will sign in at</dt><dd>${escaped(issuer)}</dd>
${scope === undefined ? '' : `<dt>Permissions</dt><dd>${escaped(scope)}</dd>\n`}<dt>The account is connected for the gateway user</dt><dd>${escaped(user)}</dd>
</dl>
<p class="soft">Go on only if you are ${escaped(user)} and asked for this yourself. If somebody sent you this link, close
the page: your account would be connected to theirs.</p>
<form method="post" action="${escaped(action)}">
${hidden.join('\n')}
${code}
<button type="submit">Go on to ${escaped(issuer)}</button>
</form>`,
  );
}

/**
 * A page that leads the browser to the authorization server. A redirect is not possible, because `form-action` would
 * block it.
 */
export function leavingPage(url: string, issuer: string): string {
  return document(
    `Going to ${issuer}`,
    `<p>You are on the way to ${escaped(issuer)}.</p>
<p><a class="button" href="${escaped(url)}" rel="noreferrer">Go on</a></p>`,
    `<meta http-equiv="refresh" content="0;url=${escaped(url)}">`,
  );
}

export function connectedPage(name: string, user: string): string {
  return document(
    `Signed in to ${name}`,
    `<p>The gateway can now use <strong>${escaped(name)}</strong> for <strong>${escaped(user)}</strong>.</p>
<p>Return to your client. If it does not go on by itself, repeat the call there. You can close this page.</p>`,
  );
}

/** Where the user of a link can sign in at the gateway in place of the user who is signed in. */
export interface OtherSignIn {
  readonly user: string;
  readonly again: string | undefined;
}

export function failurePage(title: string, message: string, advice: string, other?: OtherSignIn): string {
  const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
  const again =
    other?.again === undefined
      ? ''
      : `\n<p>Are you ${escaped(other.user)}? <a href="${escaped(other.again)}">Sign in as ${escaped(other.user)}</a></p>`;
  return document(
    title,
    `<p role="alert">${escaped(sentence(message))}</p>\n<p>What to do: ${escaped(advice)}.</p>${again}`,
  );
}

function document(title: string, body: string, head = ''): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
${head}
<title>${escaped(title)}</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${escaped(title)}</h1>
${body}
</main>
</body>
</html>
`;
}
