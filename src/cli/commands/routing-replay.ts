import type { PoolReplay } from '../../app/replica-choice-log.js';
import { loadConfig } from '../../config/load.js';
import { columns, oneLine, paint, type Style } from '../../telemetry/terminal-style.js';
import { CONFIG, type Command, HELP, JSON_OUTPUT } from '../command.js';

export const ROUTING_REPLAY: Command = {
  name: 'routing replay',
  optional: ['SERVER'],
  summary: 'Judge other ways to choose among replicas by the recorded choices.',
  details:
    'For each server with replicas, and each skill that several agents have, estimates the mean worth of a call under\n' +
    'other policies. The estimate uses inverse propensity scoring over the choices that the gateway stored in the last\n' +
    'seven days, and has a 95 % interval. A call that succeeds at once is worth 1, a call that takes as long as the\n' +
    'objective 0.5, and a failed call 0. Reads the database of the configuration; the gateway need not run, and no\n' +
    'server is contacted.',
  flags: [CONFIG, JSON_OUTPUT, HELP],
  examples: ['parley routing replay', 'parley routing replay weather --json'],
  run: async ({ io, operands: [only], text, given }) => {
    const { config } = loadConfig({ ...io, file: text('config') });
    const { replayStored } = await import('../../app/replica-choice-log.js');
    const pools = await replayStored(config, only);
    io.stdout(given('json') ? `${JSON.stringify({ pools }, null, 2)}\n` : replayText(pools, io.style));
    return 0;
  },
};

const NOTHING =
  'No choices are recorded. The gateway records choices among servers.NAME.replicas, and among agents with equal skills.\n';

function replayText(pools: readonly PoolReplay[], style: Style): string {
  if (pools.length === 0) return NOTHING;
  return pools
    .map(({ pool, policies }) => {
      const rows = policies.map(({ policy, reward, from, to, success, effective }): [string, string] => [
        policy,
        `${reward.toFixed(3)}  (${from.toFixed(3)} to ${to.toFixed(3)})  ${(100 * success).toFixed(1).padStart(5)} % succeed  effective choices: ${Math.round(effective)}`,
      ]);
      return `${paint(style, 'bold', oneLine(pool))}  ${policies[0]?.choices ?? 0} choices\n${columns(rows)}\n`;
    })
    .join('\n');
}
