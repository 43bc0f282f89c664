/** Texts of errors that show the inside of a server. */

/** A longer error is searched up to here only. */
const SEARCHED = 8_000;
/** The parts are bounded, so that no text makes the search slow. */
const STACK = /\n[ \t]{1,20}at \S[^\n]{0,500}:\d{1,9}:\d{1,9}|Traceback \(most recent call last\)/;
const PATH = /\/(?:home|usr|var|opt|Users)\/[\w./-]{1,200}\.(?:js|ts|mjs|py|go|rs)\b/;

/** Whether an error shows a stack trace or a path of the server. */
export function disclosesInside(error: unknown): boolean {
  const { message, data, details } = (error ?? {}) as { message?: unknown; data?: unknown; details?: unknown };
  const text = [message, data, details].map(textOf).join('\n').slice(0, SEARCHED);
  return STACK.test(text) || PATH.test(text);
}

function textOf(value: unknown): string {
  if (value === undefined) return '';
  if (typeof value === 'string') return value.slice(0, SEARCHED);
  try {
    return JSON.stringify(value).slice(0, SEARCHED).replaceAll('\\n', '\n');
  } catch {
    // Nested more deeply than the stack allows.
    return '';
  }
}
