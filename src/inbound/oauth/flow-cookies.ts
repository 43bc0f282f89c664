/**
 * Cookies that bind a sign-in to the browser that began it (S5). oidc-provider sets two cookies for certain paths,
 * which the prefix `__Host-` forbids. The browser gets one cookie for each sign-in instead: its value is a keyed digest
 * of the interaction's id, so only the gateway can make it.
 */
import { FLOW_COOKIES } from '../../identity/oauth-server/paths.js';

/**
 * Limit on the sign-ins of one browser at the same time. More cookies could make the head of its requests too large.
 */
const MOST_FLOWS = 8;
const UID = /^[\w-]{16,64}$/;

export interface CookieStyle {
  /** Over https, cookies have the prefix `__Host-` and are sent over https only. */
  readonly secure: boolean;
}

const nameOf = ({ secure }: CookieStyle, name: string): string => `${secure ? '__Host-' : ''}parley_${name}`;

/** The cookies of a request, by name. */
export function readCookies(header: string | undefined): Map<string, string> {
  const cookies = new Map<string, string>();
  for (const part of header?.split(';') ?? []) {
    const equals = part.indexOf('=');
    if (equals > 0) cookies.set(part.slice(0, equals).trim(), part.slice(equals + 1).trim());
  }
  return cookies;
}

export function setCookie(style: CookieStyle, name: string, value: string, seconds: number): string {
  const life = value === '' ? 'Max-Age=0' : `Max-Age=${seconds}`;
  const secure = style.secure ? '; Secure' : '';
  return `${nameOf(style, name)}=${value}; Path=/; ${life}; HttpOnly; SameSite=Lax${secure}`;
}

export const cookieOf = (style: CookieStyle, header: string | undefined, name: string): string | undefined =>
  readCookies(header).get(nameOf(style, name));

export const flowCookie = (uid: string): string => `flow.${uid}`;

export const isUid = (text: string): boolean => UID.test(text);

/** The id of the interaction that oidc-provider has begun, from the cookies that it sets. */
export function begunFlow(headers: readonly string[]): string | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]!.toLowerCase() !== 'set-cookie') continue;
    const match = /^([^=]+)=([^;]*)/.exec(headers[i + 1]!);
    if (match?.[1] === FLOW_COOKIES.resume && match[2] !== undefined && isUid(match[2])) return match[2];
  }
  return undefined;
}

/** The headers without the cookies that oidc-provider sets for its paths. */
export function withoutFlowCookies(headers: readonly string[]): string[] {
  const kept: string[] = [];
  const own: readonly string[] = Object.values(FLOW_COOKIES);
  for (let i = 0; i < headers.length; i += 2) {
    const cookie = headers[i]!.toLowerCase() === 'set-cookie' ? headers[i + 1]!.split('=', 1)[0]! : '';
    if (!own.includes(cookie)) kept.push(headers[i]!, headers[i + 1]!);
  }
  return kept;
}

/**
 * The Cookie header for oidc-provider: without the interaction cookies of the browser, and with the proven interaction.
 */
export function providerCookies(header: string | undefined, uid: string | undefined): string | undefined {
  const own: readonly string[] = Object.values(FLOW_COOKIES);
  const kept = [...readCookies(header)]
    .filter(([name]) => !own.includes(name))
    .map(([name, value]) => `${name}=${value}`);
  if (uid !== undefined) kept.push(...own.map((name) => `${name}=${uid}`));
  return kept.length > 0 ? kept.join('; ') : undefined;
}

/** Removes flows beyond the limit. The browser sends the oldest cookies first (RFC 6265 §5.4). */
export function surplusFlows(style: CookieStyle, header: string | undefined): string[] {
  const prefix = nameOf(style, 'flow.');
  const flows = [...readCookies(header).keys()].filter((name) => name.startsWith(prefix));
  return flows
    .slice(0, Math.max(0, flows.length - MOST_FLOWS + 1))
    .map((name) => setCookie(style, flowCookie(name.slice(prefix.length)), '', 0));
}
