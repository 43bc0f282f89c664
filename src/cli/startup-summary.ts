import type { Summary, UpstreamRow } from '../app/running-gateway.js';
import { columns, duration, oneLine, paint, plural, type Style, wrap } from '../telemetry/terminal-style.js';

/** The text at the start: the servers and agents, the endpoints, and the configuration to paste into a client. */
export function summaryText({ upstreams, endpoints, paste, page }: Summary, style: Style): string {
  const servers = upstreams.filter(({ kind }) => kind === 'server');
  const agents = upstreams.filter(({ kind }) => kind === 'agent');
  const heading = (text: string): string => paint(style, 'bold', text);
  return [
    servers.length > 0 ? `${heading('Servers')}\n${upstreamTable(servers, style)}` : 'There are no servers.',
    ...(agents.length > 0 ? [`${heading('Agents')}\n${upstreamTable(agents, style)}`] : []),
    `${heading('Endpoints')}\n${columns(endpoints.map(({ label, address }) => [label, address]))}`,
    [
      heading('Paste into a client'),
      columns(paste.map(({ title, text }) => [title, text])),
      page === undefined
        ? '  For other clients see docs/clients.md.'
        : `  For other clients open ${page} in a browser.`,
    ].join('\n'),
  ]
    .map((part) => `\n${part}\n`)
    .join('');
}

const COLORS = { up: 'green', starting: 'yellow', down: 'red' } as const;
/** If this many columns are free, a problem is shown at the end of its row, otherwise below the row. */
const BESIDE = 32;
const BELOW = 6;
const MOST_LINES = 8;

/**
 * One row for each server or agent: its name, its state, its number of tools or skills, how long it took to start, and its
 * problem.
 */
export function upstreamTable(rows: readonly UpstreamRow[], style: Style): string {
  const cells = rows.map(({ kind, name, state, count, took }) => ({
    name,
    state: state as string,
    count: count === undefined ? '' : plural(count, kind === 'server' ? 'tool' : 'skill'),
    took: took === undefined || state !== 'up' ? '' : duration(took),
  }));
  const widest = (key: 'name' | 'state' | 'count' | 'took'): number =>
    Math.max(...cells.map((cell) => cell[key].length));
  const [name, state, count, took] = [widest('name'), widest('state'), widest('count'), widest('took')];
  const used = 2 + name + 2 + state + 2 + count + 2 + took + 2;
  return rows
    .map((row, index) => {
      const cell = cells[index]!;
      const start = [
        `  ${cell.name.padEnd(name)}`,
        paint(style, COLORS[row.state], cell.state.padEnd(state)),
        cell.count.padStart(count),
        cell.took.padStart(took),
      ].join('  ');
      if (row.problem === undefined) return start.trimEnd();
      const beside = style.width - used >= BESIDE;
      const indent = beside ? used : BELOW;
      const lines = problemLines(row, style.width - indent);
      const rest = lines.map((line) => `${' '.repeat(indent)}${line}`);
      return beside ? [`${start}  ${lines[0]}`, ...rest.slice(1)].join('\n') : [start.trimEnd(), ...rest].join('\n');
    })
    .join('\n');
}

/** The lines of a problem, without the name of the server, which the row already shows. */
function problemLines({ kind, name, problem = '' }: UpstreamRow, width: number): string[] {
  const noun = kind === 'server' ? 'Server' : 'Agent';
  const said = problem.startsWith(`${noun} "${name}" `) ? problem.slice(noun.length + name.length + 4) : problem;
  const lines = said
    .split('\n')
    .map((line) => oneLine(line.trimEnd()))
    .filter((line) => line !== '')
    .flatMap((line) => wrap(line, Math.max(width, 20)));
  return lines.length > MOST_LINES ? [...lines.slice(0, MOST_LINES - 1), '...'] : lines.length > 0 ? lines : ['?'];
}
