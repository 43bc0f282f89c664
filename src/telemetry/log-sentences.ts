import { duration, plural } from './terminal-style.js';

type Fields = Readonly<Record<string, unknown>>;

/** The text form of a log line with a known event; undefined for all other lines. */
export function sentenceOf(fields: Fields): string | undefined {
  const { event } = fields;
  return typeof event === 'string' && Object.hasOwn(SENTENCES, event) ? SENTENCES[event]!(fields) : undefined;
}

const SENTENCES: Readonly<Record<string, (fields: Fields) => string>> = {
  'server.up': ({ server, tools, why, startMs, awayMs }) => up('server', server, tools, 'tool', why, startMs, awayMs),
  'agent.up': ({ agent, skills, why, startMs, awayMs }) => up('agent', agent, skills, 'skill', why, startMs, awayMs),
  'server.down': ({ server, why }) => down('server', server, why),
  'agent.down': ({ agent, why }) => down('agent', agent, why),
  call,
};

function call({ id, caller, client, method, server, agent, tool, prompt, resource, ...said }: Fields): string {
  const { outcome, error, ms, events, revision, serverRevision } = said;
  const target = [server ?? agent, tool ?? prompt ?? resource].filter((part) => part !== undefined).join('/');
  const revisions = serverRevision === undefined ? revision : `${String(revision)} -> ${String(serverRevision)}`;
  const about = [caller, client, revisions, id === undefined ? undefined : `id ${String(id)}`];
  return [
    method,
    target === '' ? undefined : target,
    outcome === 'error' ? `failed (${String(error)})` : outcome,
    events === undefined ? undefined : `with ${plural(Number(events), 'event')}`,
    typeof ms === 'number' ? `in ${duration(ms)}` : undefined,
    `[${about.filter((part) => part !== undefined).join(', ')}]`,
  ]
    .filter((part) => part !== undefined)
    .join(' ');
}

function up(
  kind: string,
  name: unknown,
  count: unknown,
  noun: string,
  why: unknown,
  startMs: unknown,
  awayMs: unknown,
): string {
  const time =
    typeof awayMs === 'number'
      ? ` again, after ${duration(awayMs)} away`
      : typeof startMs === 'number'
        ? `, after ${duration(startMs)}`
        : '';
  const offer = typeof count === 'number' ? `: ${plural(count, noun)}` : '';
  return `${kind} ${String(name)} is up${time}${offer}${why === undefined ? '' : `; ${joined(why)}`}`;
}

function down(kind: string, name: unknown, why: unknown): string {
  return `${kind} ${String(name)} is down: ${why === undefined ? 'it does not answer' : joined(why)}`;
}

/** Joins a reason of several lines, such as the last output of a program, into one line. */
function joined(why: unknown): string {
  const lines = String(why).split('\n');
  return lines
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join(' | ');
}
