/** Headers in the order received: alternating names, in lower case, and values. */
export type HttpHeaders = readonly string[];

/** The value of a header, the first one if it is repeated. `name` is in lower case. */
export function headerOf(headers: HttpHeaders, name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (headers[i] === name) return headers[i + 1];
  return undefined;
}
