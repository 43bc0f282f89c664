/** The pages of the authorization server. They work without scripts, with the keyboard, and on a phone. */
import type { AskingClient, PendingInteraction } from '../../identity/oauth-server/oauth-server.js';
import { Html, html } from './html.js';

export interface PageLinks {
  /** The path of the interaction, to which the forms are sent. */
  readonly action: string;
  readonly style: string;
  /** The value that proves that a form comes from this page. */
  readonly token: string;
}

export interface LoginPage extends PageLinks {
  readonly client: AskingClient;
  /** Whether local users sign in here. */
  readonly passwords: boolean;
  /** The name of the other OpenID provider; undefined if there is none. */
  readonly elsewhere: string | undefined;
  readonly problem?: string | undefined;
  /** The user name of the last attempt. */
  readonly name?: string | undefined;
}

export interface ConsentPage extends PageLinks {
  readonly interaction: PendingInteraction;
  readonly account: string;
}

function document(title: string, style: string, body: Html): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · Parley</title>
<link rel="stylesheet" href="${style}">
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`.text;
}

const nameOf = ({ name, id }: AskingClient): string => name ?? (id.length > 60 ? `${id.slice(0, 60)}…` : id);

export function loginPage(page: LoginPage): string {
  const { client, passwords, elsewhere, problem, name = '', action, style, token } = page;
  const hidden = html`<input type="hidden" name="token" value="${token}">`;
  const local = html`<form method="post" action="${action}/login">
${hidden}
<label for="name">User name</label>
<input id="name" name="name" value="${name}" autocomplete="username" autocapitalize="none" spellcheck="false"
  maxlength="64" required${name === '' ? new Html(' autofocus') : ''}>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="256" required${
    name === '' ? '' : new Html(' autofocus')
  }>
<button type="submit">Sign in</button>
</form>`;
  const other = html`<form method="post" action="${action}/elsewhere">
${hidden}
<button type="submit"${passwords ? new Html(' class="second"') : ''}>Continue with ${elsewhere}</button>
</form>`;
  return document(
    'Sign in',
    style,
    html`<h1>Sign in</h1>
${
  client.own
    ? html`<p>This gateway has to know who you are before it connects an account of yours.</p>`
    : html`<p><strong>${nameOf(client)}</strong> wants to use this gateway for you. It continues at
<strong>${client.redirectHost}</strong>.</p>`
}
${problem !== undefined && html`<p class="error" role="alert" id="problem">${problem}</p>`}
${passwords && local}
${passwords && elsewhere !== undefined && html`<p class="or">or</p>`}
${elsewhere !== undefined && other}
<p class="muted">Sign in only if you started this yourself. After this step you can still refuse.</p>`,
  );
}

const SCOPES: Readonly<Record<string, string>> = {
  mcp: 'use the tools, prompts and resources that you may use',
  offline_access: 'keep this access until you or an administrator end it',
};

export function consentPage({ interaction, account, action, style, token }: ConsentPage): string {
  const { client, scopes, resources } = interaction;
  return document(
    'Allow access',
    style,
    html`<h1>Allow <strong>${nameOf(client)}</strong>?</h1>
<p>You are signed in as <strong>${account}</strong>. This application asks to act for you:</p>
<ul>
${(scopes.length > 0 ? scopes : ['mcp']).map((scope) => html`<li>${SCOPES[scope] ?? scope}</li>\n`)}</ul>
<dl>
<dt>At</dt>
${resources.map((resource) => html`<dd>${resource}</dd>\n`)}<dt>Then you return to</dt>
<dd>${client.redirectHost}</dd>
${
  client.documentHost !== undefined &&
  html`<dt>The application is published by</dt>
<dd>${client.documentHost}</dd>
`
}</dl>
${
  client.local
    ? html`<p class="note"><strong>This application runs on your computer.</strong> Any program there can pretend to be
${nameOf(client)}. Allow it only if you have just started the sign-in yourself.</p>`
    : html`<p class="muted">The name is the application's own claim. Check the address above.</p>`
}
<form method="post" action="${action}/consent">
<input type="hidden" name="token" value="${token}">
<button type="submit" name="decision" value="allow">Allow</button>
<button type="submit" name="decision" value="refuse" class="second">Refuse</button>
</form>
<form method="post" action="${action}/switch">
<input type="hidden" name="token" value="${token}">
<button type="submit" class="link">Use another account</button>
</form>`,
  );
}

/** A problem that the browser cannot solve by trying again. */
export function errorPage(style: string, title: string, explanation: string): string {
  return document(
    title,
    style,
    html`<h1>${title}</h1>
<p class="error" role="alert">${explanation}</p>
<p class="muted">You can close this page and start the sign-in again in your application.</p>`,
  );
}
