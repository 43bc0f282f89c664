/**
 * Whether a URI can come from an RFC 6570 template. Expressions stand for any text; what is between them must appear in
 * order. Linear in the URI, whatever the template: foreign templates never become regular expressions (S10).
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

/** Scheme and authority: what a server's resources usually have in common. */
export function uriRoot(uri: string): string | undefined {
  return /^([a-z][a-z0-9+.-]*:(?:\/\/[^/?#{]*)?)/i.exec(uri)?.[1]?.toLowerCase();
}
