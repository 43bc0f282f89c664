import type { Part } from '../../../protocol/a2a/model.js';

/** The media type of a part; undefined if unknown. */
export function modeOf(part: Part): string | undefined {
  if (part.mediaType) return part.mediaType;
  if (part.text !== undefined) return 'text/plain';
  if (part.data !== undefined) return 'application/json';
  return undefined;
}

/** Informal words that cards use instead of media types, and the types that each covers (S-22). */
const INFORMAL: Readonly<Record<string, RegExp>> = {
  text: /^text\//,
  data: /^application\/(?:.+\+)?json$/,
  json: /^application\/(?:.+\+)?json$/,
  image: /^image\//,
  audio: /^audio\//,
  video: /^video\//,
  file: /./,
  any: /./,
  '*': /./,
};

/** Whether one of `offered` covers a media type. An empty list covers every type, because the card declares none. */
export function accepts(offered: readonly string[], mode: string): boolean {
  if (offered.length === 0) return true;
  const wanted = bare(mode);
  return offered.some((given) => {
    const type = bare(given);
    if (type === wanted || type === '*/*') return true;
    const informal = INFORMAL[type];
    if (informal) return informal.test(wanted) || INFORMAL[wanted] === informal;
    if (INFORMAL[wanted]?.test(type)) return true;
    return type.endsWith('/*') && wanted.startsWith(type.slice(0, -1));
  });
}

const bare = (type: string): string => type.split(';', 1)[0]!.trim().toLowerCase();
