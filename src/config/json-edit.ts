import { isDeepStrictEqual } from 'node:util';

/**
 * Changes one member of a JSON text and leaves every other byte as it is: comments, trailing commas, indentation and
 * line ends. Editors and clients keep their configuration in such files.
 */

/** Sets the member at `path`. Missing maps on the way are created. Throws if the text is not a map. */
export function setJsonMember(text: string, path: readonly string[], value: unknown): string {
  const source = text.trim() === '' ? '{}\n' : text;
  const eol = source.includes('\r\n') ? '\r\n' : '\n';
  const unit = indentOf(source);
  let map = rootOf(source);
  for (const [depth, name] of path.entries()) {
    const member = map.members.find((each) => each.name === name);
    const last = depth === path.length - 1;
    const inner = member && source[member.from] === '{' ? parseMap(source, member.from) : undefined;
    if (member !== undefined && inner !== undefined && !last) {
      map = inner;
      continue;
    }
    const rest = path.slice(depth + 1).reduceRight<unknown>((below, key) => ({ [key]: below }), value);
    if (member !== undefined) {
      if (!last) throw new Error(`${path.slice(0, depth + 1).join('.')} is not a map`);
      if (isDeepStrictEqual(jsonMember(source, path), value)) return source;
      return source.slice(0, member.from) + render(rest, unit, depth + 1, eol) + source.slice(member.to);
    }
    return insert(source, map, `${JSON.stringify(name)}: ${render(rest, unit, depth + 1, eol)}`, unit, depth, eol);
  }
  return source;
}

/** Removes the member at `path`. Returns the text unchanged if there is no such member. */
export function removeJsonMember(text: string, path: readonly string[]): string {
  if (text.trim() === '') return text;
  let map = rootOf(text);
  for (const [depth, name] of path.entries()) {
    const index = map.members.findIndex((each) => each.name === name);
    const member = map.members[index];
    if (member === undefined) return text;
    if (depth < path.length - 1) {
      if (text[member.from] !== '{') return text;
      map = parseMap(text, member.from);
      continue;
    }
    return cut(text, map, index);
  }
  return text;
}

/** The value at `path`, or undefined. */
export function jsonMember(text: string, path: readonly string[]): unknown {
  if (text.trim() === '') return undefined;
  let map = rootOf(text);
  for (const [depth, name] of path.entries()) {
    const member = map.members.find((each) => each.name === name);
    if (member === undefined) return undefined;
    if (depth === path.length - 1) return JSON.parse(withoutComments(text.slice(member.from, member.to)));
    if (text[member.from] !== '{') return undefined;
    map = parseMap(text, member.from);
  }
  return undefined;
}

interface Member {
  readonly name: string;
  /** Where the name starts, and where the value starts and ends. */
  readonly at: number;
  readonly from: number;
  readonly to: number;
  /** The position of the comma after the member. */
  readonly comma: number | undefined;
}

interface JsonMap {
  readonly open: number;
  readonly close: number;
  readonly members: readonly Member[];
}

function rootOf(text: string): JsonMap {
  const start = skip(text, text.startsWith('\uFEFF') ? 1 : 0);
  if (text[start] !== '{') throw new SyntaxError('the file is not a JSON object');
  const map = parseMap(text, start);
  if (skip(text, map.close + 1) < text.length)
    throw new SyntaxError(`text after the JSON object at ${lineOf(text, map.close)}`);
  return map;
}

function parseMap(text: string, open: number): JsonMap {
  const members: Member[] = [];
  let at = skip(text, open + 1);
  while (text[at] !== '}') {
    if (text[at] !== '"') throw new SyntaxError(`a name in double quotes is expected in ${lineOf(text, at)}`);
    const end = endOfValue(text, at);
    const colon = skip(text, end);
    if (text[colon] !== ':') throw new SyntaxError(`a colon is expected in ${lineOf(text, colon)}`);
    const from = skip(text, colon + 1);
    const to = endOfValue(text, from);
    const next = skip(text, to);
    const comma = text[next] === ',' ? next : undefined;
    if (comma === undefined && text[next] !== '}')
      throw new SyntaxError(`a comma or } is expected in ${lineOf(text, next)}`);
    members.push({ name: JSON.parse(text.slice(at, end)) as string, at, from, to, comma });
    at = comma === undefined ? next : skip(text, comma + 1);
  }
  return { open, close: at, members };
}

/** Maximum depth of a JSON text, so that a deep text cannot exhaust the stack. No real file is this deep. */
const MAX_DEPTH = 200;

function endOfValue(text: string, start: number): number {
  let depth = 0;
  for (let i = start; i < text.length; ) {
    const char = text[i]!;
    if (char === '"') {
      i = endOfString(text, i);
      if (depth === 0) return i;
    } else if (char === '{' || char === '[') {
      depth += 1;
      if (depth > MAX_DEPTH) throw new SyntaxError('the JSON is nested too deep');
      i = skip(text, i + 1);
    } else if (char === '}' || char === ']') {
      depth -= 1;
      i += 1;
      if (depth === 0) return i;
      i = skip(text, i);
    } else if (depth === 0) {
      const end = /^[-+.\w]+/.exec(text.slice(i, i + 400))?.[0].length ?? 0;
      if (end === 0) throw new SyntaxError(`a value is expected in ${lineOf(text, i)}`);
      return i + end;
    } else i = skip(text, i + 1);
  }
  throw new SyntaxError('the JSON ends too early');
}

function endOfString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    if (text[i] === '\\') i += 1;
    else if (text[i] === '"') return i + 1;
    else if (text[i] === '\n') break;
  }
  throw new SyntaxError(`a string has no end in ${lineOf(text, start)}`);
}

/** The next position that is neither a space nor in a comment. */
function skip(text: string, from: number): number {
  let i = from;
  while (i < text.length) {
    if (/\s/.test(text[i]!)) i += 1;
    else if (text.startsWith('//', i)) {
      const end = text.indexOf('\n', i);
      i = end === -1 ? text.length : end;
    } else if (text.startsWith('/*', i)) {
      const end = text.indexOf('*/', i + 2);
      if (end === -1) throw new SyntaxError('a comment has no end');
      i = end + 2;
    } else break;
  }
  return i;
}

const lineOf = (text: string, at: number): string => `line ${text.slice(0, at).split('\n').length}`;

/** The indentation of the first indented line; two spaces by default, nothing for a text in one line. */
function indentOf(text: string): string {
  if (/"[^\n]*"/.test(text) && !text.trim().includes('\n')) return '';
  return /\n([ \t]+)"/.exec(text)?.[1] ?? '  ';
}

function render(value: unknown, unit: string, depth: number, eol: string): string {
  return JSON.stringify(value, null, unit)
    .split('\n')
    .join(`${eol}${unit.repeat(depth)}`);
}

function insert(text: string, map: JsonMap, member: string, unit: string, depth: number, eol: string): string {
  const inner = `${eol}${unit.repeat(depth + 1)}`;
  const last = map.members.at(-1);
  if (last === undefined) {
    const between = text.slice(map.open + 1, map.close);
    const kept = between.trim() === '' ? '' : between.trimEnd();
    return `${text.slice(0, map.open + 1)}${kept}${inner}${member}${eol}${unit.repeat(depth)}${text.slice(map.close)}`;
  }
  const multiline = text.slice(map.open, map.close).includes('\n');
  const lead = multiline ? inner : ' ';
  const after = last.comma === undefined ? last.to : last.comma + 1;
  // A comment at the end of the line belongs to the member before it.
  const end =
    after + (/^[ \t]*(?:\/\/[^\r\n]*|\/\*[^\r\n]*?\*\/)(?=[ \t]*\r?\n)/.exec(text.slice(after))?.[0].length ?? 0);
  const comma = last.comma === undefined ? ',' : '';
  // If the last member had a trailing comma, the new last member gets one too.
  const own = last.comma === undefined ? '' : ',';
  return `${text.slice(0, after)}${comma}${text.slice(after, end)}${lead}${member}${own}${text.slice(end)}`;
}

/** Removes a member with its comma and its own line. */
function cut(text: string, { open, close, members }: JsonMap, index: number): string {
  const member = members[index]!;
  const before = members[index - 1];
  if (member.comma === undefined && before?.comma !== undefined) {
    // Removing the last member also removes the comma after the member before it. Comments between the two stay.
    const kept = text.slice(before.comma + 1, member.at).trimEnd();
    return text.slice(0, before.comma) + kept + text.slice(member.to);
  }
  let from = member.at;
  let to = member.comma === undefined ? member.to : member.comma + 1;
  if (members.length === 1) {
    const alone = text.slice(open + 1, member.at).trim() === '' && text.slice(to, close).trim() === '';
    return alone ? text.slice(0, open + 1) + text.slice(close) : text.slice(0, from).trimEnd() + text.slice(to);
  }
  while (from > 0 && /[ \t]/.test(text[from - 1]!)) from -= 1;
  const startsLine = text[from - 1] === '\n';
  while (to < text.length && /[ \t]/.test(text[to]!)) to += 1;
  if (startsLine && (text[to] === '\n' || text.startsWith('\r\n', to))) to += text[to] === '\r' ? 2 : 1;
  else if (!startsLine) from = member.at;
  return text.slice(0, from) + text.slice(to);
}

function withoutComments(text: string): string {
  let out = '';
  for (let i = 0; i < text.length; ) {
    if (text[i] === '"') {
      const end = endOfString(text, i);
      out += text.slice(i, end);
      i = end;
    } else if (text.startsWith('//', i) || text.startsWith('/*', i)) i = skip(text, i);
    else {
      out += text[i];
      i += 1;
    }
  }
  return out.replace(/,(\s*[}\]])/g, '$1');
}
