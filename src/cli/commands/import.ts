import { statSync } from 'node:fs';
import path from 'node:path';
import { importText, LARGEST_FILE } from '../../config/import/detect.js';
import type { Imported, ImportedEntry } from '../../config/import/entries.js';
import { mergeEntries } from '../../config/import/merge.js';
import { withoutSecrets } from '../../config/import/secrets.js';
import { configFrom } from '../../config/load.js';
import { ConfigError } from '../../config/problem.js';
import { readEntry } from '../../config/upstream-entry.js';
import { discoverableFiles } from '../client-config-files.js';
import {
  type CliEnvironment,
  CONFIG,
  type Command,
  type CommandLine,
  HELP,
  JSON_OUTPUT,
  UsageError,
} from '../command.js';
import { type ImportReport, reportText } from '../import-report.js';
import { applyChange, DRY_RUN, readIfExists, YES } from '../write-file.js';

export const IMPORT: Command = {
  name: 'import',
  optional: ['FILE'],
  summary: 'Take over the servers of other programs.',
  details:
    'Reads files of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, LiteLLM, agentgateway, a catalogue of Docker, or\n' +
    'a server.json of the MCP Registry, and adds their servers to the configuration. It reports for each field whether it\n' +
    'is taken over exactly, approximately, by hand, or not at all, shows the change, and asks before it writes. Comments\n' +
    'of the configuration stay. Secrets become references to environment variables. --discover finds the files of this\n' +
    'user and this folder.',
  flags: [
    CONFIG,
    { name: 'discover', description: 'Read the files of every known program on this machine.' },
    { name: 'replace', description: 'Replace entries of the configuration that have the same name.' },
    YES,
    DRY_RUN,
    JSON_OUTPUT,
    HELP,
  ],
  examples: [
    'parley import claude_desktop_config.json',
    'parley import --discover --dry-run',
    'parley import server.json --yes',
  ],
  run: importFiles,
};

interface Source {
  readonly file: string;
  readonly imported: Imported;
}

async function importFiles(line: CommandLine): Promise<number> {
  const { io, operands, given, text } = line;
  const [file] = operands;
  if ((file === undefined) === !given('discover')) throw new UsageError('name a FILE, or give --discover', IMPORT);
  const sources = file === undefined ? discovered(io) : [read(path.resolve(io.cwd, file), file)];
  if (sources.length === 0) {
    io.stdout('No configuration of another program was found.\n');
    return 1;
  }
  const target = targetFile(io, text('config'));
  const before = readIfExists(target);
  const { reports, moved, after } = plan(sources, before ?? '', target, line);
  const written = reports.flatMap(({ entries }) => entries.map((each) => ('state' in each ? each.state : 'refused')));
  if (given('json')) io.stdout(`${JSON.stringify(asJson(reports, moved, target), null, 2)}\n`);
  else io.stdout(reportText(reports, moved, io.style));
  if (!written.some((state) => state === 'added' || state === 'replaced')) {
    if (!given('json')) io.stdout('There is nothing to write.\n');
    return written.some((state) => state === 'taken' || state === 'refused') ? 1 : 0;
  }
  const done = await applyChange({ file: target, before, after, backup: true }, line);
  if (done && !given('json'))
    io.stdout(
      `Wrote ${target}${before === undefined ? '' : `; the old text is in ${path.basename(target)}.bak`}. Check it with: parley config check\n`,
    );
  return 0;
}

function read(file: string, shown: string): Source {
  const stats = statSync(file, { throwIfNoEntry: false });
  if (stats === undefined) throw new Error(`${shown} does not exist`);
  if (!stats.isFile()) throw new Error(`${shown} is not a file`);
  if (stats.size > LARGEST_FILE) throw new Error(`${shown} is larger than ${LARGEST_FILE / 2 ** 20} MiB`);
  return { file, imported: importText(readIfExists(file) ?? '', file) };
}

/** The files that exist. A file that cannot be read is named, and the others are still imported. */
function discovered(io: CliEnvironment): Source[] {
  return discoverableFiles(io).flatMap(({ title, file }) => {
    if (statSync(file, { throwIfNoEntry: false }) === undefined) return [];
    try {
      const source = read(file, file);
      return source.imported.entries.length > 0 ? [source] : [];
    } catch (error) {
      io.stderr(`${title}: ${file} is left out: ${(error as Error).message}\n`);
      return [];
    }
  });
}

function targetFile(io: CliEnvironment, given: string | undefined): string {
  const named = given ?? (io.env['PARLEY_CONFIG'] === '' ? undefined : io.env['PARLEY_CONFIG']);
  if (named !== undefined) return path.resolve(io.cwd, named);
  const names = ['parley.yaml', 'parley.yml', 'parley.json'].map((name) => path.join(io.cwd, name));
  return names.find((name) => statSync(name, { throwIfNoEntry: false }) !== undefined) ?? names[0]!;
}

function plan(sources: readonly Source[], before: string, target: string, { given, io }: CommandLine) {
  const cleaned = withoutSecrets(sources.flatMap(({ imported }) => imported.entries));
  const refused = new Map<ImportedEntry, string>();
  for (const entry of cleaned.entries) {
    const reason = refusal(entry, io);
    if (reason !== undefined) refused.set(entry, reason);
  }
  // All entries are merged together, so that the file is parsed and written once.
  const accepted = cleaned.entries.filter((entry) => !refused.has(entry));
  const format = /\.jsonc?$/i.test(target) ? 'json' : 'yaml';
  const { text: after, entries } = mergeEntries(before, format, accepted, given('replace'));
  const merged = new Map(entries.map((each) => [each.entry, each]));
  let index = 0;
  const reports = sources.map(
    ({ file, imported }): ImportReport => ({
      file,
      notes: imported.notes,
      entries: imported.entries.map(() => {
        const entry = cleaned.entries[index++]!;
        return merged.get(entry) ?? { entry, refused: refused.get(entry)! };
      }),
    }),
  );
  const kept = new Set(
    reports.flatMap(({ entries }) =>
      entries.flatMap((each) =>
        'state' in each && each.state !== 'taken' ? [`${each.entry.section}.${each.entry.name}.`] : [],
      ),
    ),
  );
  const moved = cleaned.moved.filter(({ key }) => [...kept].some((prefix) => key.startsWith(prefix)));
  return { reports, moved, after };
}

/** Why an entry cannot be imported: it is the gateway itself, or its settings are invalid. */
function refusal({ section, name, settings }: ImportedEntry, { env, cwd }: CliEnvironment): string | undefined {
  const command = typeof settings['command'] === 'string' ? path.basename(settings['command']) : '';
  const args = Array.isArray(settings['args']) ? settings['args'].map(String) : [];
  if (/^parley(\.js|\.cmd)?$/.test(command) || args.some((arg) => /(^|[/\\])parley(\.js)?$/.test(arg)))
    return 'it is this gateway itself';
  if (name === '') return 'its name has neither letters nor digits; rename it in the file';
  if (Object.keys(settings).length === 0) return 'it has no settings that Parley understands';
  // The environment variables of an entry need not be set during the import.
  const anything: Record<string, string | undefined> = new Proxy(
    { ...env },
    { get: (all, key) => all[String(key)] ?? 'value' },
  );
  try {
    readEntry(section, name, settings, { config: configFrom({}, { cwd }).config, env: anything, cwd });
    return undefined;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const [problem] = error.problems.filter(
      ({ severity, key }) => severity === 'error' && !refersToVariable(settings, key),
    );
    return problem && `${problem.key}: ${problem.message}; ${problem.fix}`;
  }
}

/** Whether the value of a key contains a variable, whose value is not known here. */
function refersToVariable(settings: object, key: string): boolean {
  const top = key.split(/[.[]/)[2] ?? '';
  return JSON.stringify((settings as Record<string, unknown>)[top] ?? '').includes('${');
}

function asJson(reports: readonly ImportReport[], secrets: readonly object[], target: string): object {
  return {
    target,
    sources: reports.map(({ file, notes, entries }) => ({
      file,
      notes,
      entries: entries.map((each) => ({
        section: each.entry.section,
        name: each.entry.name,
        state: 'state' in each ? each.state : 'refused',
        ...('refused' in each && { reason: each.refused }),
        settings: each.entry.settings,
        notes: each.entry.notes,
      })),
    })),
    secrets,
  };
}
