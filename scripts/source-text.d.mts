/** The same text with blanks in place of comments. */
export function withoutComments(text: string): string;
/** The same text with blanks in place of strings. */
export function withoutStrings(text: string): string;
