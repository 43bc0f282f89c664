/**
 * Whether an RFC 6570 template can produce the URI. Expressions match any text; the literals between them must appear
 * in order. The match is linear in the URI for every template: templates from servers never become regular expressions
 * (S10).
 */
export function matchesTemplate(template: string, uri: string): boolean {
  const literals = template.split(/\{[^{}]*\}/);
  if (literals.length === 1) return template === uri;
  const first = literals[0]!;
  const last = literals.at(-1)!;
  if (!uri.startsWith(first) || !uri.endsWith(last) || uri.length < first.length + last.length) return false;
  let at = first.length;
  const end = uri.length - last.length;
  for (const literal of literals.slice(1, -1)) {
    const found = uri.indexOf(literal, at);
    if (found < 0 || found + literal.length > end) return false;
    at = found + literal.length;
  }
  return true;
}

/** Scheme and authority, which the resources of one server usually share. */
export function uriRoot(uri: string): string | undefined {
  return /^([a-z][a-z0-9+.-]*:(?:\/\/[^/?#{]*)?)/i.exec(uri)?.[1]?.toLowerCase();
}
