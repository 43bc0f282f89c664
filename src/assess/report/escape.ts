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
