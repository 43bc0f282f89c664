/** The response types that a client accepts (C-09). Only a client that names event streams gets an event stream. */
export interface Accepted {
  readonly json: boolean;
  readonly stream: boolean;
  /** Whether the client prefers an HTML page to JSON, as browsers do. */
  readonly html: boolean;
}

const BOTH: Accepted = { json: true, stream: true, html: false };
const USUAL = 'application/json, text/event-stream';

export function accepted(header: string | undefined): Accepted {
  if (header === USUAL) return BOTH;
  if (header === undefined || header.trim() === '') return { json: true, stream: false, html: false };
  let json = false;
  let stream = false;
  let htmlWeight = 0;
  let jsonWeight = 0;
  for (const part of header.split(',')) {
    const [type, ...parameters] = part.split(';').map((piece) => piece.trim().toLowerCase());
    const weight = weightOf(parameters);
    if (weight === 0) continue;
    if (type === 'text/event-stream') stream = true;
    else if (type === 'application/json' || type === '*/*' || type === 'application/*') json = true;
    else if (type === 'text/*') stream = true;
    if (type === 'application/json') jsonWeight = Math.max(jsonWeight, weight);
    if (type === 'text/html' || type === 'application/xhtml+xml') htmlWeight = Math.max(htmlWeight, weight);
  }
  return { json, stream, html: htmlWeight > jsonWeight };
}

/** The weight of a media range. An invalid weight counts as 1, like a missing one. */
function weightOf(parameters: readonly string[]): number {
  for (const parameter of parameters) {
    const given = /^q=([01](?:\.\d*)?)$/.exec(parameter)?.[1];
    if (given !== undefined) return Math.min(Number(given), 1);
  }
  return 1;
}

export const isJson = (contentType: string | undefined): boolean =>
  contentType === 'application/json' ||
  (contentType !== undefined && /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(contentType));
