import type { ReloadReport } from '../../app/config-reloader.js';
import { type ConfigChange, configDiff, diffLines } from '../../config/config-diff.js';
import { hasConfiguration, loadConfig } from '../../config/load.js';
import { ConfigError, formatProblem } from '../../config/problem.js';
import { oneLine, paint, plural } from '../../telemetry/terminal-style.js';
import { CONFIG, type Command, type CommandLine, HELP, JSON_OUTPUT, UsageError } from '../command.js';
import { GatewayRefusal, gatewayAddress, requestJson, TOKEN_FLAG, URL_FLAG } from '../gateway-api.js';

export const CONFIG_DIFF: Command = {
  name: 'config diff',
  optional: ['FILE'],
  summary: 'Show the changes that a reload would apply.',
  details:
    'Without FILE, the running gateway reads its configuration file and compares the file with the configuration in use;\n' +
    'nothing is applied. With FILE, the command compares the configuration of this folder with FILE, and needs no\n' +
    'gateway. Secrets are masked. Keys that need a restart are marked. The exit code is 0 without changes, 1 with\n' +
    'changes, and 2 if the file has errors.',
  flags: [CONFIG, URL_FLAG, TOKEN_FLAG, JSON_OUTPUT, HELP],
  examples: ['parley config diff', 'parley config diff new.yaml --config parley.yaml', 'parley config diff --json'],
  run: async (line) => {
    const [file] = line.operands;
    return file === undefined ? withGateway(line) : withFile(line, file);
  },
};

async function withGateway(line: CommandLine): Promise<number> {
  const { io, given } = line;
  const report = await preview(line);
  const errors = report.problems.filter(({ severity }) => severity === 'error');
  if (given('json')) io.stdout(`${JSON.stringify(report, null, 2)}\n`);
  else {
    for (const { severity, key, message, fix, at } of report.problems)
      io.stderr(
        `${severity}: ${at === null ? '' : `${at}: `}${key === '' ? '' : `${key}: `}${message}\n  fix: ${fix}\n`,
      );
    if (errors.length === 0) io.stdout(diffText(report.changes, line));
  }
  return errors.length > 0 ? 2 : report.changes.length > 0 ? 1 : 0;
}

async function preview(line: CommandLine): Promise<ReloadReport> {
  try {
    const answer = await requestJson(gatewayAddress(line), '/api/v1/config/reload', {
      method: 'POST',
      body: { preview: true },
    });
    return reportOf(answer);
  } catch (error) {
    // If the file has errors, the gateway refuses the request, and the body of the refusal lists the problems.
    if (error instanceof GatewayRefusal && isReport(error.body)) return reportOf(error.body);
    throw error;
  }
}

const isReport = (value: unknown): value is Partial<ReloadReport> =>
  typeof value === 'object' && value !== null && Array.isArray((value as Partial<ReloadReport>).problems);

function reportOf(answer: unknown): ReloadReport {
  if (!isReport(answer))
    throw new Error('the gateway is too old to compare its configuration; update the gateway, or name a FILE');
  return { outcome: 'preview', changes: [], restart: [], ...answer, problems: answer.problems ?? [] };
}

function withFile(line: CommandLine, file: string): number {
  const { io, text, given } = line;
  const current = text('config');
  if (!hasConfiguration({ ...io, file: current }))
    throw new UsageError(
      'no configuration found in this folder; name the current file with --config FILE',
      CONFIG_DIFF,
    );
  try {
    const changes = configDiff(
      loadConfig({ ...io, file: current, listens: false }),
      loadConfig({ ...io, file, listens: false }),
    );
    io.stdout(given('json') ? `${JSON.stringify({ changes }, null, 2)}\n` : diffText(changes, line));
    return changes.length > 0 ? 1 : 0;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    io.stderr(error.problems.map((problem) => `${formatProblem(problem)}\n`).join(''));
    return 2;
  }
}

const COLORS = { '+': 'green', '-': 'red', ' ': 'bold' } as const;

function diffText(changes: readonly ConfigChange[], { io }: CommandLine): string {
  if (changes.length === 0) return 'No key differs.\n';
  const lines = diffLines(changes).map(({ mark, text }) =>
    mark === ' ' ? paint(io.style, 'bold', oneLine(text)) : paint(io.style, COLORS[mark], `${mark}${oneLine(text)}`),
  );
  const later = changes.filter(({ restart }) => restart).length;
  const note = later === 0 ? '' : `, ${later} of them after a restart`;
  return `${lines.join('\n')}\n${plural(changes.length, 'change')}${note}\n`;
}
