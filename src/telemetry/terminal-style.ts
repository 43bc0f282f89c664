/** The layout of text for an output stream. */
export interface Style {
  /** Characters per line; infinite if the stream is not a terminal. */
  readonly width: number;
  readonly color: boolean;
}

export const PLAIN: Style = { width: Number.POSITIVE_INFINITY, color: false };

/** `hasColors` respects NO_COLOR, FORCE_COLOR and terminals without colors. */
export function styleOf(stream: NodeJS.WriteStream): Style {
  if (!stream.isTTY) return PLAIN;
  return { width: stream.columns > 0 ? stream.columns : 80, color: stream.hasColors() };
}

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;

export function paint({ color }: Style, name: keyof typeof CODES, text: string): string {
  return color ? `\x1b[${CODES[name]}m${text}\x1b[0m` : text;
}

/** A duration rounded to at most three digits. */
export function duration(milliseconds: number): string {
  if (milliseconds < 1) return '<1 ms';
  if (milliseconds < 999.5) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 119.5) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const escaped = (char: string): string => SHORT[char] ?? `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;

/**
 * Escapes control and direction characters of untrusted text, so that it stays on one line and cannot control a
 * terminal.
 */
export function oneLine(text: string): string {
  return text.replace(/[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g, escaped);
}

/**
 * Escapes output of several lines that contains untrusted text. Only line ends, tabs and, with `color`, the codes of
 * `paint` stay. JSON keeps its meaning, because JSON strings use the same escapes.
 */
export function terminalText(text: string, { color }: Pick<Style, 'color'>): string {
  return text.replace(color ? UNPAINTED : CONTROLS, escaped);
}

const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;
const UNPAINTED = new RegExp(`(?!\\x1b\\[(?:0|1|2|31|32|33)m)${CONTROLS.source}`, 'g');

/** Breaks text at spaces into lines of at most `width` characters; a longer word is cut. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (let word of text.split(/ +/).filter((part) => part !== '')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = '';
    }
    for (; word.length > width; word = word.slice(width)) lines.push(word.slice(0, width));
    line = line === '' ? word : `${line} ${word}`;
  }
  if (line !== '' || lines.length === 0) lines.push(line);
  return lines;
}

/**
 * Lays out two columns. The second column is never wrapped, so that it can be copied. A line end in a cell does not
 * start a row.
 */
export function columns(rows: readonly (readonly [string, string])[]): string {
  const cells = rows.map((row) => row.map((cell) => cell.replace(/[\n\r\t]/g, escaped)) as [string, string]);
  const width = Math.max(0, ...cells.map(([left]) => left.length));
  return cells.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`.trimEnd()).join('\n');
}
