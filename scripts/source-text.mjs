// A small JavaScript scanner that separates code from comments, strings and regular expressions.

/** A `/` after one of these starts a regular expression; after other text it is a division. */
const BEFORE_REGEX =
  /(?:^|[([{,;:=!&|?+\-*%^~<>}]|\b(?:return|typeof|case|in|of|void|delete|throw|new|await|yield))\s*$/;

/** The pieces of a source text, each with its kind. */
function* pieces(text) {
  let at = 0;
  let plain = 0;
  // The depth of braces inside each open `${…}`.
  const templates = [];
  while (at < text.length) {
    const char = text[at];
    let end;
    let kind = 'string';
    if (text.startsWith('//', at)) [end, kind] = [endOf(text.indexOf('\n', at), text), 'comment'];
    else if (text.startsWith('/*', at)) [end, kind] = [endOf(text.indexOf('*/', at + 2), text, 2), 'comment'];
    else if (char === "'" || char === '"') end = endOfQuoted(text, at);
    else if (char === '`') end = endOfTemplate(text, at + 1, templates);
    else if (char === '/' && BEFORE_REGEX.test(text.slice(Math.max(0, at - 40), at))) end = endOfRegex(text, at);
    else if (char === '}' && templates.at(-1) === 0) {
      templates.pop();
      end = endOfTemplate(text, at + 1, templates);
    } else {
      if (templates.length > 0 && char === '{') templates[templates.length - 1]++;
      if (templates.length > 0 && char === '}') templates[templates.length - 1]--;
      at++;
      continue;
    }
    if (plain < at) yield { kind: 'code', text: text.slice(plain, at) };
    yield { kind, text: text.slice(at, end) };
    at = plain = end;
  }
  if (plain < at) yield { kind: 'code', text: text.slice(plain) };
}

const endOf = (index, text, length = 0) => (index === -1 ? text.length : index + length);

function endOfQuoted(text, start) {
  let at = start + 1;
  while (at < text.length && text[at] !== text[start] && text[at] !== '\n') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

/** The end of the text up to the closing backtick or the next `${`. */
function endOfTemplate(text, start, templates) {
  for (let at = start; at < text.length; at += text[at] === '\\' ? 2 : 1) {
    if (text[at] === '`') return at + 1;
    if (text.startsWith('${', at)) {
      templates.push(0);
      return at + 2;
    }
  }
  return text.length;
}

function endOfRegex(text, start) {
  let inClass = false;
  for (let at = start + 1; at < text.length && text[at] !== '\n'; at += text[at] === '\\' ? 2 : 1) {
    if (text[at] === '[') inClass = true;
    else if (text[at] === ']') inClass = false;
    else if (text[at] === '/' && !inClass) return at + 1;
  }
  // The slash is a division.
  return start + 1;
}

const blank = (text) => text.replace(/[^\n]/g, ' ');

/** The text with comments replaced by spaces; lines and columns stay the same. */
export function withoutComments(text) {
  return [...pieces(text)].map((piece) => (piece.kind === 'comment' ? blank(piece.text) : piece.text)).join('');
}

/** A text without comments, with strings, templates and regular expressions replaced by spaces. */
export function withoutStrings(text) {
  return [...pieces(text)].map((piece) => (piece.kind === 'string' ? blank(piece.text) : piece.text)).join('');
}

const STATEMENT = /^[ \t]*(?:import|export)\s+(type\s+)?(?:[\w*{][^'";]*?\bfrom\s*)?(['"])([^'"\n]+)\2/gm;
const DYNAMIC = /\bimport\s*\(\s*(['"])([^'"\n]+)\1\s*\)/g;

/** The imports of a text without comments: `{ specifier, isType, offset }`. */
export function importsOf(code) {
  const found = [];
  for (const { index, 0: text, 1: type, 3: specifier } of code.matchAll(STATEMENT)) {
    // `import { type A, type B } from` is removed at compile time too.
    const names =
      /\{([^}]*)\}/
        .exec(text)?.[1]
        .split(',')
        .map((name) => name.trim())
        .filter(Boolean) ?? [];
    const isType =
      type !== undefined ||
      (names.length > 0 && /^\s*\w+\s*\{/.test(text) && names.every((name) => name.startsWith('type ')));
    found.push({ specifier, isType, offset: index + text.search(/\S/) });
  }
  for (const { index, 2: specifier } of code.matchAll(DYNAMIC)) found.push({ specifier, isType: false, offset: index });
  return found;
}
