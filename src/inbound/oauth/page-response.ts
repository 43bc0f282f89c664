import type { RequestContext } from '../http/route.js';

/**
 * The headers of every page: nothing is loaded except the style sheet, no script runs, no page may frame it (S5).
 * `form-action` limits where a form may lead, redirects included, so it names the client's address.
 */
export const pageHeaders = (formTarget?: string): string[] => [
  'Content-Type',
  'text/html; charset=utf-8',
  'Content-Security-Policy',
  `default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'${
    formTarget === undefined ? '' : ` ${formTarget}`
  }`,
  'X-Frame-Options',
  'DENY',
  'X-Content-Type-Options',
  'nosniff',
  // With `no-referrer`, browsers would send the forms of these pages with `Origin: null`.
  'Referrer-Policy',
  'same-origin',
  'Cache-Control',
  'no-store',
];

/** The source expression for the address to which a client's redirect leads. */
export function formTarget(redirectUri: string): string | undefined {
  if (!URL.canParse(redirectUri)) return undefined;
  const { protocol, origin } = new URL(redirectUri);
  return protocol === 'https:' || protocol === 'http:' ? origin : protocol;
}

export interface Page {
  readonly status?: number;
  readonly body: string;
  readonly formTarget?: string | undefined;
  readonly cookies?: readonly string[];
  readonly headers?: readonly string[];
}

export function sendPage(
  { res }: RequestContext,
  { status = 200, body, formTarget, cookies = [], headers = [] }: Page,
): void {
  const all = [...pageHeaders(formTarget), ...headers, ...cookies.flatMap((cookie) => ['Set-Cookie', cookie])];
  res.sendText(status, all, body);
}

/** The response to a form. The browser continues with GET, so that going back does not send the form again. */
export function seeOther({ res }: RequestContext, location: string, cookies: readonly string[] = []): void {
  const all = ['Location', location, 'Cache-Control', 'no-store', 'Referrer-Policy', 'same-origin'];
  res.send(303, [...all, ...cookies.flatMap((cookie) => ['Set-Cookie', cookie])], []);
}
