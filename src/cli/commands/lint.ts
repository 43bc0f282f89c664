import { hasConfiguration, loadConfig } from '../../config/load.js';
import { formatProblem } from '../../config/problem.js';
import { createLog } from '../../telemetry/log-output.js';
import { CONFIG, type Command, type CommandLine, HELP, UsageError } from '../command.js';

export const LINT: Command = {
  name: 'lint',
  summary: 'Check names, descriptions and schemas of all tools.',
  details:
    'Starts the servers of the configuration, checks the definitions of their tools against the limits of model\n' +
    'providers, and stops the servers. The exit code is 1 if there is an error or a server does not answer.',
  flags: [CONFIG, { name: 'json', description: 'Print one JSON object on stdout.' }, HELP],
  examples: ['parley lint', 'parley lint --config parley.yaml --json'],
  run: lint,
};

async function lint({ io, text, given }: CommandLine): Promise<number> {
  const file = text('config');
  if (!hasConfiguration({ ...io, file })) {
    throw new UsageError('no configuration found in this folder; name a file with --config FILE');
  }
  const { config, warnings } = loadConfig({ ...io, file, listens: false });
  for (const warning of warnings) io.stderr(`${formatProblem(warning)}\n`);
  const { lintTools } = await io.starters();
  const answer = await lintTools(config, { log: createLog({ ...config.log, level: 'error' }, io.terminal) });
  const { findings, missing } = answer;
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  if (given('json')) io.stdout(`${JSON.stringify(answer)}\n`);
  else {
    for (const name of missing) io.stderr(`the tools of server ${name} could not be read\n`);
    for (const { server, tool, severity, message, withheld } of findings)
      io.stdout(
        `${severity}: ${server}__${printable(tool)}: ${printable(message)}${withheld ? ' (not offered)' : ''}\n`,
      );
    io.stdout(`${errors} errors, ${findings.length - errors} warnings\n`);
  }
  return errors > 0 || missing.length > 0 ? 1 : 0;
}

/** Servers choose the names of tools, so control characters are removed. */
const printable = (text: string): string => text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ').slice(0, 300);
