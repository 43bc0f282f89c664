const UUID = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;
const TIME = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?/g;
/** A long word of digits, capital and small letters: an id or a sealed value. */
const OPAQUE = /(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{20,}(?![\w-])/g;

/** Replaces ids and times that differ between two runs, so that two reports on the same build are the same. */
export const maskVolatile = (text: string): string =>
  text.replace(UUID, '<id>').replace(TIME, '<time>').replace(OPAQUE, '<id>');
