const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Text for XML and HTML, also inside attributes. Characters that XML forbids are replaced. */
export const escapeXml = (text: string): string =>
  text
    .replace(/[&<>"']/g, (each) => ENTITIES[each]!)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd');

/**
 * Text of a server, without control characters: a terminal would obey them. Characters that change the direction of the
 * text are replaced too: with them, a reader sees a text that the server did not send. Line feeds stay.
 */
export const withoutControls = (text: string): string =>
  text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');

/** Text for Markdown that shows itself: no HTML, links, images, code and emphasis, and no end of a table cell. */
export const escapeMarkdown = (text: string): string =>
  text
    .replace(/\s+/g, ' ')
    .replace(/[\\`*_[\]!|~#]/g, '\\$&')
    .replace(/[&<>]/g, (each) => ENTITIES[each]!);
