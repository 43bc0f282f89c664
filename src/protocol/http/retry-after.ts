import { type HttpHeaders, headerOf } from './headers.js';

const SECONDS = /^\d{1,10}$/;
/** A date in one of the three forms that a recipient must accept (RFC 9110 §5.6.7). */
const DATE =
  /^(?:[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} GMT|[A-Z][a-z]{5,8}, \d\d-[A-Z][a-z]{2}-\d\d [\d:]{8} GMT|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4})$/;

/** The value of `Retry-After`; undefined unless it is a number of seconds or a date. */
export function retryAfterOf(headers: HttpHeaders): string | undefined {
  const value = headerOf(headers, 'retry-after')?.trim();
  return value !== undefined && (SECONDS.test(value) || DATE.test(value)) ? value : undefined;
}

/** Maximum wait, whatever the peer asks for. */
const LONGEST_WAIT = 12 * 60 * 60 * 1_000;

/** The value of `Retry-After` in milliseconds from `now`; 0 if the header is absent. */
export function retryAfterMs(value: string | undefined, now: number): number {
  if (value === undefined) return 0;
  // The one of the three forms that names no time zone also means GMT.
  const date = (): number => Date.parse(value.endsWith('GMT') ? value : `${value} GMT`) - now;
  const ms = SECONDS.test(value) ? Number(value) * 1_000 : date();
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), LONGEST_WAIT) : 0;
}
