/** A scope that also grants other scopes (AUR-06). */
export interface ScopeRules {
  /** The scopes that each scope includes. */
  readonly includes: Readonly<Record<string, readonly string[]>>;
}

const NO_RULES: ScopeRules = { includes: {} };

/** The scopes of `needed` that are not granted. A granted `a:*` also grants `a:b`. */
export function lackingScopes(
  granted: readonly string[],
  needed: readonly string[],
  { includes }: ScopeRules = NO_RULES,
): readonly string[] {
  if (needed.length === 0) return needed;
  const all = new Set(granted);
  // A set visits members that are added during the loop, so included scopes are followed to the end.
  for (const scope of all) {
    if (Object.hasOwn(includes, scope)) for (const more of includes[scope]!) all.add(more);
  }
  const wide = [...all].filter((scope) => scope.endsWith(':*')).map((scope) => scope.slice(0, -1));
  return needed.filter((scope) => !all.has(scope) && !wide.some((start) => scope.startsWith(start)));
}
