import { hasConfiguration, loadConfig } from '../../config/load.js';
import { columns } from '../../telemetry/terminal-style.js';
import { CONFIG, type Command, type CommandLine, type Flag, HELP, JSON_OUTPUT, UsageError } from '../command.js';
import { gatewayAddress, requestJson } from '../gateway-api.js';
import { firstLine, GATEWAY_FLAGS, printJson } from '../gateway-output.js';

const MOST = 50;
const SERVER: Flag = { name: 'server', value: 'NAME', description: 'Only tools of this server.' };
const CALLER: Flag = { name: 'caller', value: 'NAME', description: 'The caller, as log lines name it.' };

interface Explained {
  readonly mode: string;
  readonly needs: readonly string[];
  readonly tools: readonly {
    readonly name: string;
    readonly score: number;
    readonly learned: number;
    readonly plainRank: number | null;
    readonly stuffed: boolean;
    readonly terms: readonly { readonly term: string; readonly synonym?: string; readonly worth: number }[];
  }[];
  readonly servers: readonly { readonly server: string; readonly score: number }[];
}

interface Stats {
  readonly mode: string;
  readonly outcomes: number;
  readonly callers: number;
  readonly loudCallers: number;
  readonly weights: { readonly terms: number; readonly votes: number };
  readonly tools: readonly { readonly server: string; readonly name: string; readonly outcomes: number }[];
  readonly replica: {
    readonly searches: number;
    readonly changed: number;
    readonly outcomes: number;
    readonly plain: number;
    readonly learned: number;
  };
}

export const ROUTING_EXPLAIN: Command = {
  name: 'routing explain',
  operands: ['QUERY'],
  summary: 'Show which tools a search of the running gateway finds, and why.',
  details:
    'Lists the results with their scores, the terms of the query that match each result, and the part of the score that\n' +
    'the gateway has learned from calls. Also lists the servers that fit, ranked by their best tools. Needs the token of\n' +
    'an administrator. The exit code is 0 if a tool fits and 1 otherwise.',
  flags: [
    ...GATEWAY_FLAGS,
    { name: 'limit', value: 'NUMBER', description: `The most tools, from 1 to ${MOST}. Default: 5.` },
    SERVER,
    { name: 'view', value: 'NAME', description: 'Search the tools of this view.' },
    { ...CALLER, description: 'Rank with what was learned for this caller.' },
  ],
  examples: ['parley routing explain "send an email"', 'parley routing explain "book a room" --caller ann --json'],
  run: async (line) => {
    const { io, operands, text, given } = line;
    const limit = Number(text('limit') ?? 5);
    if (!Number.isInteger(limit) || limit < 1 || limit > MOST)
      throw new UsageError(`--limit takes a whole number from 1 to ${MOST}`, ROUTING_EXPLAIN);
    const [server, view, caller] = [text('server'), text('view'), text('caller')];
    const body = {
      ...{ query: operands[0]!, limit },
      ...(server !== undefined && { server }),
      ...(view !== undefined && { view }),
      ...(caller !== undefined && { caller }),
    };
    const path = '/api/v1/routing/explain';
    const answer = (await requestJson(gatewayAddress(line), path, { method: 'POST', body })) as Explained;
    if (given('json')) printJson(line, answer);
    else io.stdout(explainedText(answer));
    return answer.tools.length > 0 ? 0 : 1;
  },
};

function explainedText({ mode, needs, tools, servers }: Explained): string {
  if (tools.length === 0) return 'No tool fits. Describe the need in other words.\n';
  const rows = tools.map(({ name, score, learned, plainRank, stuffed, terms }): [string, string] => {
    const words = terms.map(({ term, synonym, worth }) => `${synonym ?? term} ${worth.toFixed(2)}`);
    const notes = [
      ...(learned > 0
        ? [`learned +${learned.toFixed(2)}, rank by words ${plainRank ?? `beyond ${tools.length}`}`]
        : []),
      ...(stuffed ? ['the description repeats one word too often'] : []),
    ];
    return [`${score.toFixed(2)}  ${firstLine(name, 128)}`, [firstLine(words.join(', '), 200), ...notes].join('; ')];
  });
  const split = needs.length > 0 ? `Needs: ${needs.map((need) => firstLine(need)).join(' | ')}\n` : '';
  const fitting = servers.map(({ server, score }) => `${firstLine(server, 64)} ${score.toFixed(2)}`).join(', ');
  const shadow = mode === 'on' ? '' : `Learning is ${mode}: callers get the ranking by words.\n`;
  return `${split}${columns(rows)}\nServers: ${fitting}\n${shadow}`;
}

export const ROUTING_STATS: Command = {
  name: 'routing stats',
  summary: 'Show what search has learned from calls.',
  details:
    'Shows the outcomes that search learned from, the weights that a replay of the last outcomes chose, and how the tools\n' +
    'that were called ranked with and without learning at this replica. Needs the token of an administrator.',
  flags: GATEWAY_FLAGS,
  examples: ['parley routing stats', 'parley routing stats --json'],
  run: async (line) => {
    const stats = (await requestJson(gatewayAddress(line), '/api/v1/routing/stats')) as Stats;
    if (line.given('json')) printJson(line, stats);
    else line.io.stdout(statsText(stats));
    return 0;
  },
};

function statsText({ mode, outcomes, callers, loudCallers, weights, tools, replica }: Stats): string {
  const rows: [string, string][] = [
    ['learning', mode],
    [
      'outcomes',
      `${outcomes} of ${callers} callers${loudCallers > 0 ? `, and the outcomes of ${loudCallers} callers count only for themselves because they are so many` : ''}`,
    ],
    ['weights', `terms ${weights.terms}, votes ${weights.votes}`],
    [
      'searches',
      `${replica.searches} at this replica, ${replica.changed} with other first five tools because of learning`,
    ],
    ['called tools', `${replica.outcomes}, mean reciprocal rank ${replica.plain} by words, ${replica.learned} learned`],
  ];
  const most = tools.slice(0, 20).map(({ server, name, outcomes: count }): [string, string] => {
    return [`${count}`, `${firstLine(server, 64)} ${firstLine(name, 128)}`];
  });
  return `${columns(rows)}\n${most.length > 0 ? `\nTools with outcomes:\n${columns(most)}\n` : ''}`;
}

export const ROUTING_FORGET: Command = {
  name: 'routing forget',
  summary: 'Forget what search has learned from calls.',
  details:
    'Removes the outcomes that match every given flag, or all with --all. Uses the database of the configuration; running\n' +
    'gateways follow within a second.',
  flags: [
    CONFIG,
    CALLER,
    SERVER,
    { name: 'tool', value: 'NAME', description: "Only outcomes of this tool, by its server's name for it." },
    { name: 'all', description: 'Forget everything.' },
    JSON_OUTPUT,
    HELP,
  ],
  examples: [
    'parley routing forget --caller ann',
    'parley routing forget --server files --tool read',
    'parley routing forget --all',
  ],
  run: forget,
};

async function forget({ io, text, given }: CommandLine): Promise<number> {
  const what = { caller: text('caller'), server: text('server'), tool: text('tool') };
  const some = Object.values(what).some((value) => value !== undefined);
  if (some === given('all'))
    throw new UsageError('say what to forget: --caller, --server or --tool, or --all alone', ROUTING_FORGET);
  const file = hasConfiguration({ ...io, file: text('config') }) ? text('config') : io.quickstart;
  const { config } = loadConfig({ ...io, file });
  const { forgetOutcomes } = await import('../../app/commands/forget-routing.js');
  const removed = await forgetOutcomes(config, what);
  io.stdout(given('json') ? `${JSON.stringify({ removed })}\n` : `Forgot ${removed} outcomes.\n`);
  return 0;
}
