/** Removes secrets from texts for people: messages, logs, the effective configuration. */

export const MASK = '********';

const SECRET_NAME = /key|token|secret|passw|credential|auth|signature|^sig$/i;

/** Whether the name of a query parameter, flag or variable suggests a secret. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** Hides the secrets in a URL: user and password, and query values whose name suggests a secret. */
export function hideCredentials(text: string): string {
  return text
    .replace(/(:\/\/)[^/?#\s]*@/g, `$1${MASK}@`)
    .replace(/([?&])([^=?&#\s]+)=([^&#\s]*)/g, (whole, lead: string, name: string) =>
      isSecretName(name) ? `${lead}${name}=${MASK}` : whole,
    );
}

/** Replaces the given secrets everywhere in a text. Very short secrets stay, because they would match in most texts. */
export function hiding(secrets: Iterable<string>): (text: string) => string {
  const hidden = [...secrets].filter((secret) => secret.length >= 6).sort((a, b) => b.length - a.length);
  return (text) => hidden.reduce((shown, secret) => shown.replaceAll(secret, MASK), text);
}

/** Masks secret arguments in the forms `--api-key=…` and `--api-key …`. */
export function maskArguments(args: readonly string[]): string[] {
  return args.map((arg, index) => {
    const [name = '', value] = splitOnce(arg, '=');
    if (value !== undefined && isSecretName(name)) return `${name}=${MASK}`;
    const before = args[index - 1] ?? '';
    const followsFlag = before.startsWith('--') && !before.includes('=') && isSecretName(before);
    return followsFlag && !arg.startsWith('-') ? MASK : arg;
  });
}

/** Tokens of a known form, and `name=value` if the name suggests a secret. Every pattern takes linear time. */
const TOKENS: readonly RegExp[] = [
  /\b(?:sk|pk|rk|glpat|xox[abeprs])-[\w-]{10,}/g,
  /\b(?:gh[opsur]|github_pat|hf|npm|pypi)_[\w-]{16,}/g,
  /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/g,
  /\bAIza[\w-]{30,}/g,
];
/**
 * A JWT. The pattern also matches words without the two dots of a JWT, which are not masked: matching the whole word
 * prevents that each part of a long word is tried again.
 */
const JWT = /\beyJ[\w-]{8,}(?:\.[\w-]{8,}\.[\w-]*)?/g;
const NAMED =
  /(?<![\w-])([\w-]{0,40}(?:key|token|secret|passw(?:or)?d|credential)[\w-]{0,40}["']?\s*=\s*["']?)([^\s"',;&]{6,})/gi;
const BEARER = /\b(Bearer|Basic)\s+[\w.~+/=-]{8,}/gi;

/** Hides text that looks like a secret in the output of a program. For single lines of bounded length. */
export function hideTokens(text: string): string {
  const masked = TOKENS.reduce((shown, token) => shown.replace(token, MASK), hideCredentials(text));
  const withoutJwt = masked.replace(JWT, (word) => (word.includes('.') ? MASK : word));
  return withoutJwt.replace(NAMED, `$1${MASK}`).replace(BEARER, `$1 ${MASK}`);
}

/**
 * The environment values to hide: values whose name suggests a secret, and values that look random. Paths, words and
 * numbers stay readable, because hiding `production` or `/srv/files` would make texts useless.
 */
export function secretsIn(env: Readonly<Record<string, string>>): string[] {
  return Object.entries(env).flatMap(([name, value]) => (isSecretName(name) || looksRandom(value) ? [value] : []));
}

function looksRandom(value: string): boolean {
  return value.length >= 20 && /^[\w.~+=-]+$/.test(value) && /\d/.test(value) && /[a-z]/i.test(value);
}

function splitOnce(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator);
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}
