import { type HttpHeaders, headerOf } from './headers.js';

const SECONDS = /^\d{1,10}$/;
/** A date in each of the three forms that a recipient has to know (RFC 9110 §5.6.7). */
const DATE =
  /^(?:[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} GMT|[A-Z][a-z]{5,8}, \d\d-[A-Z][a-z]{2}-\d\d [\d:]{8} GMT|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4})$/;

/** When to come again, as the reply says it. What is neither a number nor a date tells nobody anything. */
export function retryAfterOf(headers: HttpHeaders): string | undefined {
  const value = headerOf(headers, 'retry-after');
  return value !== undefined && (SECONDS.test(value) || DATE.test(value)) ? value : undefined;
}
