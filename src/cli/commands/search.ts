import { hasConfiguration, loadConfig } from '../../config/load.js';
import { formatProblem } from '../../config/problem.js';
import { createLog } from '../../telemetry/log-output.js';
import { columns } from '../../telemetry/terminal-style.js';
import { CONFIG, type Command, type CommandLine, HELP, UsageError } from '../command.js';

const MOST = 50;

export const SEARCH: Command = {
  name: 'search',
  operands: ['NEED'],
  summary: 'Find the tools that fit a need.',
  details:
    'Starts the servers of the configuration, ranks their tools for the need in the way of search_tools, and stops the\n' +
    'servers. A score is relative to the best match. The exit code is 0 if a tool fits and 1 otherwise.',
  flags: [
    CONFIG,
    { name: 'limit', value: 'NUMBER', description: `The most tools, from 1 to ${MOST}. Default: 5.` },
    { name: 'server', value: 'NAME', description: 'Search the tools of this server only.' },
    { name: 'json', description: 'Print one JSON object on stdout.' },
    HELP,
  ],
  examples: ['parley search "send an email"', 'parley search "weather of tomorrow" --limit 3 --json'],
  run: search,
};

async function search({ io, operands, text, given }: CommandLine): Promise<number> {
  const file = text('config');
  if (!hasConfiguration({ ...io, file })) {
    throw new UsageError('no configuration found in this folder; name a file with --config FILE');
  }
  const limit = Number(text('limit') ?? 5);
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST) {
    throw new UsageError(`--limit takes a whole number from 1 to ${MOST}`, SEARCH);
  }
  const { config, warnings } = loadConfig({ ...io, file, listens: false });
  for (const warning of warnings) io.stderr(`${formatProblem(warning)}\n`);
  const { searchTools } = await io.starters();
  const log = createLog({ ...config.log, level: 'error' }, io.terminal);
  const server = text('server')?.toLowerCase();
  const answer = await searchTools(config, { log }, { query: operands[0]!, limit, server });
  if (given('json')) io.stdout(`${JSON.stringify(answer)}\n`);
  else {
    for (const { server: name, reason } of answer.missing) io.stderr(`server ${name} is missing: ${reason}\n`);
    const rows = answer.tools.map(({ name, score, description }): [string, string] => [
      `${score.toFixed(2)}  ${name}`,
      firstLine(description),
    ]);
    io.stdout(rows.length > 0 ? `${columns(rows)}\n` : 'No tool fits. Describe the need in other words.\n');
  }
  return answer.tools.length > 0 ? 0 : 1;
}

/** Servers choose the descriptions, so each is shown on one line and without control characters. */
function firstLine(text: string): string {
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ').trim();
  return line.length > 100 ? `${line.slice(0, 99)}…` : line;
}
