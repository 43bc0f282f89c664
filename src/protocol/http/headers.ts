/** Headers in the order in which they came: names, in lower case, and values in turn. */
export type HttpHeaders = readonly string[];

/** A header that stands once; of several the first counts. `name` is in lower case. */
export function headerOf(headers: HttpHeaders, name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (headers[i] === name) return headers[i + 1];
  return undefined;
}
