/** Which of the two reply types a client takes (C-09). Only a client that names event streams is sent one. */
export interface Accepted {
  readonly json: boolean;
  readonly stream: boolean;
}

const BOTH: Accepted = { json: true, stream: true };
const USUAL = 'application/json, text/event-stream';

export function accepted(header: string | undefined): Accepted {
  if (header === USUAL) return BOTH;
  if (header === undefined || header.trim() === '') return { json: true, stream: false };
  let json = false;
  let stream = false;
  for (const part of header.split(',')) {
    const [type, ...parameters] = part.split(';').map((piece) => piece.trim().toLowerCase());
    if (parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))) continue;
    if (type === 'text/event-stream') stream = true;
    else if (type === 'application/json' || type === '*/*' || type === 'application/*') json = true;
    else if (type === 'text/*') stream = true;
  }
  return { json, stream };
}

export const isJson = (contentType: string | undefined): boolean =>
  contentType === 'application/json' ||
  (contentType !== undefined && /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(contentType));
