import type { StoredAuditRecord } from '../app/commands/audit-reader.js';
import { oneLine } from '../telemetry/terminal-style.js';

type Fields = Readonly<Record<string, unknown>>;

const fieldsOf = ({ value }: StoredAuditRecord): Fields =>
  typeof value === 'object' && value !== null ? (value as Fields) : { value };

/** One object per record: the place in its chain, the time, and the facts. */
export function jsonLine(record: StoredAuditRecord): string {
  const { chain, seq, at, hash } = record;
  return `${JSON.stringify({ at: new Date(at).toISOString(), chain, seq, ...fieldsOf(record), hash })}\n`;
}

const COLUMNS = [
  ...['kind', 'phase', 'caller', 'issuer', 'tenant', 'roles', 'address', 'protocol', 'method', 'server', 'target'],
  ...['name', 'arguments', 'decision', 'rule', 'by', 'outcome', 'reason', 'ms', 'trace', 'requestId', 'action'],
  ...['subject', 'event', 'path', 'suppressed', 'details'],
] as const;

export const CSV_HEADER = `${['at', 'chain', 'seq', ...COLUMNS, 'hash'].join(',')}\n`;

export function csvLine(record: StoredAuditRecord): string {
  const { chain, seq, at, hash } = record;
  const fields = fieldsOf(record);
  const cells = [new Date(at).toISOString(), chain, seq, ...COLUMNS.map((column) => fields[column]), hash];
  return `${cells.map(cell).join(',')}\n`;
}

/** One cell of CSV (RFC 4180). Callers choose some texts, and a spreadsheet must not take these texts for formulas. */
function cell(value: unknown): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A record as one line for people. */
export function textLine(record: StoredAuditRecord): string {
  const fields = fieldsOf(record);
  const given = (name: string): string | undefined => {
    const value = fields[name];
    return value === undefined ? undefined : typeof value === 'string' ? value : JSON.stringify(value);
  };
  const target = [given('server'), given('name')].filter((part) => part !== undefined).join('/');
  const label = (name: string, text = name): string | undefined => given(name) && `${text}=${given(name)}`;
  const parts = [
    new Date(record.at).toISOString(),
    given('caller') ?? '-',
    given('method') ?? given('action') ?? given('event') ?? given('kind'),
    given('kind') === 'authentication' ? given('path') : target || given('subject'),
    given('phase'),
    given('decision'),
    label('rule'),
    label('by'),
    given('outcome'),
    given('reason'),
    fields['ms'] === undefined ? undefined : `${given('ms')} ms`,
    label('address'),
    label('requestId', 'request'),
    label('suppressed'),
    label('details'),
  ];
  return `${oneLine(parts.filter((part) => part !== undefined && part !== '').join('  '))}\n`;
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * The time that a text names: a date, or a duration before now such as `90m` or `7d`. Undefined if the text is neither.
 */
export function timeOf(text: string, now = Date.now()): number | undefined {
  const before = /^(\d+)([smhd])$/.exec(text);
  if (before) return now - Number(before[1]) * UNITS[before[2]!]!;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : at;
}
