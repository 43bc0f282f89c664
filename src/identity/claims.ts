/** Where an issuer writes the properties of a caller. Each value is the name of a claim, or a path such as `a.b`. */
export interface ClaimNames {
  readonly subject: string;
  readonly roles?: string | undefined;
  readonly groups?: string | undefined;
  readonly tenant?: string | undefined;
  /** Whether callers without a tenant are accepted. */
  readonly tenantOptional?: boolean | undefined;
  /** `scope` and `scp` if undefined. */
  readonly scopes?: string | undefined;
}

export type Claims = Readonly<Record<string, unknown>>;

/** The properties of a caller that its token asserts. */
export interface Asserted {
  readonly subject: string | undefined;
  readonly roles: readonly string[];
  readonly groups: readonly string[];
  readonly tenant: string | undefined;
  readonly scopes: readonly string[];
}

/**
 * Limits on values and lists, because they are kept in memory for every caller. No real issuer writes longer values and
 * lists.
 */
const LONGEST = 512;
const MOST = 1_000;

export function assertedBy(claims: Claims, names: ClaimNames): Asserted {
  const { scopes } = names;
  return {
    subject: textOf(claimAt(claims, names.subject)),
    roles: names.roles === undefined ? [] : textsOf(claimAt(claims, names.roles), /,/),
    groups: names.groups === undefined ? [] : textsOf(claimAt(claims, names.groups), /,/),
    tenant: names.tenant === undefined ? undefined : textOf(claimAt(claims, names.tenant)),
    scopes:
      scopes === undefined
        ? [...textsOf(claims['scope'], /\s+/), ...textsOf(claims['scp'], /\s+/)]
        : textsOf(claimAt(claims, scopes), /\s+/),
  };
}

/** The claim of this name; if there is none, the member at this path. */
function claimAt(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  let value: unknown = claims;
  for (const part of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Claims)[part];
  }
  return value;
}

function textOf(value: unknown): string | undefined {
  const text = typeof value === 'number' ? String(value) : value;
  return typeof text === 'string' && text !== '' && text.length <= LONGEST ? text : undefined;
}

/** Reads a list, or a text whose parts the separator divides. */
function textsOf(value: unknown, separator: RegExp): string[] {
  const all = typeof value === 'string' ? value.split(separator).map((part) => part.trim()) : value;
  if (!Array.isArray(all)) return [];
  return all.slice(0, MOST).flatMap((each) => textOf(each) ?? []);
}
