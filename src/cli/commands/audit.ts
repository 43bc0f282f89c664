import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AuditFilter, AuditReader, SignedPlace, StoredAuditRecord } from '../../app/commands/audit-reader.js';
import { hasConfiguration, loadConfig } from '../../config/load.js';
import { plural } from '../../telemetry/terminal-style.js';
import { CSV_HEADER, csvLine, jsonLine, textLine, timeOf } from '../audit-output.js';
import { CONFIG, type Command, type CommandLine, type Flag, HELP, JSON_OUTPUT, UsageError } from '../command.js';

const SINCE: Flag = {
  name: 'since',
  value: 'TIME',
  description: 'Only records from this time on: a date (2026-01-31T10:00Z), or a duration before now (2h).',
};
const UNTIL: Flag = { name: 'until', value: 'TIME', description: 'Only records before this time.' };
const FILTERS: readonly Flag[] = [
  { name: 'caller', value: 'NAME', description: 'Only records of this caller; * matches any characters.' },
  { name: 'server', value: 'NAME', description: 'Only records about this server or agent.' },
  { name: 'tool', value: 'NAME', description: 'Only calls of this tool, by the name that its server gives it.' },
  {
    name: 'decision',
    value: 'NAME',
    description: 'Only calls with this decision: allowed, denied, asked or approved.',
  },
  {
    name: 'kind',
    value: 'NAME',
    description: 'Only records of this kind: call, authentication, change, event or checkpoint.',
  },
];
const LINES: Flag = { name: 'json', description: 'Print one JSON object per line.' };

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;
const LISTED = 50;
const TAIL_MS = 500;
/** A record can arrive this late, in milliseconds: replicas write with a delay, and their clocks differ. */
const LATE_MS = 10_000;

export const AUDIT_VERIFY: Command = {
  name: 'audit verify',
  summary: 'Check that nobody changed the audit trail.',
  details:
    'Reads every record and checks the hashes that chain them and the signatures on the ends of the chains. The exit\n' +
    'code is 1 if a record was changed, moved, inserted, or removed before its retention ended; the first such record\n' +
    'is named. The keys of state.keys are needed. The gateway may run meanwhile. The output of --json contains the\n' +
    'heads of all chains. Keep it outside of the database: --against checks later that these records still exist.',
  flags: [
    CONFIG,
    {
      name: 'against',
      value: 'FILE',
      description: 'The output of an earlier run with --json, whose records must still exist.',
    },
    JSON_OUTPUT,
    HELP,
  ],
  examples: ['parley audit verify', 'parley audit verify --json', 'parley audit verify --against heads.json'],
  run: (line) => {
    const { io, text, given } = line;
    const file = text('against');
    const expected = file === undefined ? undefined : readHeads(path.resolve(io.cwd, file));
    return reading(line, async (audit) => {
      const found = await audit.verify(expected);
      if (given('json')) io.stdout(`${JSON.stringify(found, null, 2)}\n`);
      else if (found.ok)
        io.stdout(
          `The audit trail is intact: ${plural(found.records, 'record')} in ${plural(found.chains, 'chain')}.\n`,
        );
      else io.stderr(`The audit trail is broken at record ${found.seq} of chain ${found.chain}: ${found.reason}.\n`);
      return found.ok ? 0 : 1;
    });
  },
};

export const AUDIT_EXPORT: Command = {
  name: 'audit export',
  summary: 'Write the records of the audit trail to stdout.',
  details:
    'Writes the records of all replicas in the order of their times, one per line. Memory does not grow with the number\n' +
    'of records. With --format jsonl each line is a JSON object, with csv a row under a line of column names.',
  flags: [
    CONFIG,
    SINCE,
    UNTIL,
    { name: 'format', value: 'FORMAT', description: 'jsonl or csv. Default: jsonl.' },
    ...FILTERS,
    { name: 'json', description: 'The same as --format jsonl.' },
    HELP,
  ],
  examples: ['parley audit export --since 2026-01-31', 'parley audit export --since 7d --format csv'],
  run: (line) => {
    const { io, text } = line;
    const format = text('format') ?? 'jsonl';
    if (format !== 'jsonl' && format !== 'csv')
      throw new UsageError(`--format ${format} is unknown: use jsonl or csv`, AUDIT_EXPORT);
    const range = rangeOf(line, AUDIT_EXPORT);
    return reading(line, async (audit) => {
      if (format === 'csv') io.stdout(CSV_HEADER);
      const write = format === 'csv' ? csvLine : jsonLine;
      await printAll(line, audit.read(range, filterOf(line)), write);
      return 0;
    });
  },
};

export const AUDIT_LIST: Command = {
  name: 'audit list',
  summary: 'Show the newest records of the audit trail.',
  details: 'Shows the newest matching records, oldest first. parley audit export writes all of them.',
  flags: [
    CONFIG,
    SINCE,
    UNTIL,
    ...FILTERS,
    { name: 'limit', value: 'NUMBER', description: `How many records to show. Default: ${LISTED}.` },
    LINES,
    HELP,
  ],
  examples: ['parley audit list', 'parley audit list --caller ada --decision denied --since 1d'],
  run: (line) => {
    const limit = limitOf(line, AUDIT_LIST);
    const range = rangeOf(line, AUDIT_LIST);
    return reading(line, async (audit) => {
      const newest = await lastOf(audit, line, range, limit);
      await printAll(line, newest, writerOf(line));
      return 0;
    });
  },
};

export const AUDIT_TAIL: Command = {
  name: 'audit tail',
  summary: 'Show new records of the audit trail as they are written.',
  details: 'Shows the newest matching records, and then new ones until the command is stopped with Ctrl+C.',
  flags: [
    CONFIG,
    ...FILTERS,
    { name: 'limit', value: 'NUMBER', description: 'How many older records to show first. Default: 10.' },
    LINES,
    HELP,
  ],
  examples: ['parley audit tail', 'parley audit tail --decision denied --json'],
  run: (line) => {
    const limit = limitOf(line, AUDIT_TAIL, 10);
    return reading(line, (audit) => follow(audit, line, limit));
  },
};

async function follow(audit: AuditReader, line: CommandLine, limit: number): Promise<number> {
  const stopped = new AbortController();
  const { signal } = stopped;
  const stop = (): void => stopped.abort();
  for (const name of SIGNALS) process.once(name, stop);
  const write = writerOf(line);
  const key = ({ chain, seq }: StoredAuditRecord): string => `${chain} ${seq}`;
  // The records of the last seconds, with their times, that are not shown as new: they were shown already, or they were
  // written before this command began.
  let known = new Map<string, number>();
  for await (const record of audit.read({ since: Date.now() - LATE_MS }, {})) known.set(key(record), record.at);
  const older = await lastOf(audit, line, {}, limit);
  for (const record of older) known.set(key(record), record.at);
  let there = await printAll(line, older, write);
  while (!signal.aborted && there) {
    const since = Date.now() - LATE_MS;
    const fresh: StoredAuditRecord[] = [];
    for await (const record of audit.read({ since }, filterOf(line))) if (!known.has(key(record))) fresh.push(record);
    known = new Map([
      ...[...known].filter(([, at]) => at >= since),
      ...fresh.map((each) => [key(each), each.at] as const),
    ]);
    there = await printAll(line, fresh, write);
    await sleep(TAIL_MS, undefined, { signal }).catch(() => {});
  }
  for (const name of SIGNALS) process.off(name, stop);
  return 0;
}

/** The newest matching records, oldest first. */
async function lastOf(
  audit: AuditReader,
  line: CommandLine,
  range: { since?: number; until?: number },
  limit: number,
): Promise<StoredAuditRecord[]> {
  const newest: StoredAuditRecord[] = [];
  if (limit === 0) return newest;
  for await (const record of audit.read({ ...range, newestFirst: true }, filterOf(line)))
    if (newest.push(record) >= limit) break;
  return newest.reverse();
}

/** Prints records as fast as the reader of stdout takes them. Returns false if the reader is gone. */
async function printAll(
  line: CommandLine,
  records: AsyncIterable<StoredAuditRecord> | readonly StoredAuditRecord[],
  write: (record: StoredAuditRecord) => string,
): Promise<boolean> {
  for await (const record of records) {
    line.io.stdout(write(record));
    if (!(await readerThere(line))) return false;
  }
  return true;
}

const readerThere = async ({ io }: CommandLine): Promise<boolean> => (await io.flushed?.()) ?? true;

async function reading(line: CommandLine, work: (audit: AuditReader) => Promise<number>): Promise<number> {
  const { io, text } = line;
  const file = hasConfiguration({ ...io, file: text('config') }) ? text('config') : io.quickstart;
  const { config } = loadConfig({ ...io, file });
  // Loaded on demand, so that help starts fast.
  const { openAuditReader } = await import('../../app/commands/audit-reader.js');
  const audit = await openAuditReader(config);
  try {
    return await work(audit);
  } finally {
    await audit.close();
  }
}

const writerOf = ({ given }: CommandLine) => (given('json') ? jsonLine : textLine);

const filterOf = ({ text }: CommandLine): AuditFilter => ({
  caller: text('caller'),
  server: text('server'),
  tool: text('tool'),
  decision: text('decision'),
  kind: text('kind'),
});

function rangeOf({ text }: CommandLine, command: Command): { since?: number; until?: number } {
  const read = (flag: 'since' | 'until'): { since?: number; until?: number } => {
    const value = text(flag);
    if (value === undefined) return {};
    const at = timeOf(value);
    if (at === undefined)
      throw new UsageError(
        `--${flag} ${value} is not a time: write a date such as 2026-01-31T10:00Z, or a duration such as 2h`,
        command,
      );
    return { [flag]: at };
  };
  return { ...read('since'), ...read('until') };
}

function limitOf({ text }: CommandLine, command: Command, preset = LISTED): number {
  const value = text('limit') ?? String(preset);
  if (!/^\d{1,5}$/.test(value))
    throw new UsageError(`--limit ${value} is not a number from 0 to 99999; parley audit export has no limit`, command);
  return Number(value);
}

function readHeads(file: string): readonly SignedPlace[] {
  let heads: unknown;
  try {
    ({ heads } = JSON.parse(readFileSync(file, 'utf8')) as { heads?: unknown });
  } catch (error) {
    throw new Error(`${file} cannot be read: ${(error as Error).message}`);
  }
  const valid = (head: Partial<SignedPlace> | null): boolean =>
    typeof head?.chain === 'string' && Number.isSafeInteger(head.seq) && typeof head.hash === 'string';
  if (!Array.isArray(heads) || !heads.every(valid))
    throw new Error(`${file} is not the output of a successful parley audit verify --json`);
  return heads as SignedPlace[];
}
