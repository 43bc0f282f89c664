/** The management API: the scores of evaluators. */
import type { Operation } from '../../inbound/api/operation.js';
import { cursorOf, listOf, PAGE_QUERY, pageOf } from '../../inbound/api/paging.js';
import { ref } from '../../inbound/api/schemas.js';
import { ProtocolError } from '../../protocol/errors.js';
import { type ScoreRow, wallMs } from '../../state/index.js';
import type { Runtime } from '../runtime.js';

const HOUR = 3_600_000;
const DEFAULT_HOURS = 24;
const MOST_HOURS = 168;

const name = (description: string) => ({ description, schema: { type: 'string' } }) as const;

export function scoreOperations({ state }: Pick<Runtime, 'state'>): Operation[] {
  return [
    {
      method: 'GET',
      path: '/api/v1/scores',
      access: 'admin',
      tag: 'Scores',
      description: 'The scores of evaluators for each target and hour, of all replicas',
      query: {
        ...PAGE_QUERY,
        evaluator: name('Only the scores of this evaluator.'),
        server: name('Only the scores of this server or agent.'),
        tool: name("Only the scores of this tool, by the server's name."),
        hours: {
          description: `The last hours, from 1 to ${MOST_HOURS}; default: ${DEFAULT_HOURS}.`,
          schema: { type: 'integer', minimum: 1, maximum: MOST_HOURS, default: DEFAULT_HOURS },
        },
      },
      answer: { description: 'One page', schema: listOf(ref('Score')) },
      run: async ({ query }) => {
        const { limit, after } = pageOf(query);
        const since = wallMs() - hoursOf(query['hours']) * HOUR;
        const { evaluator, server, tool } = query;
        const rows = await state.scores.list({
          since,
          ...{ evaluator, upstream: server?.toLowerCase(), target: tool },
          ...(after !== '' && { after: placeOf(after) }),
          limit: limit + 1,
        });
        const page = rows.slice(0, limit);
        const last = page.at(-1);
        return {
          body: { items: page.map(shown), ...(rows.length > limit && last && { next: cursorOf(keyOf(last)) }) },
        };
      },
    },
  ];
}

function hoursOf(given: string | undefined): number {
  const hours = given === undefined ? DEFAULT_HOURS : /^\d{1,4}$/.test(given) ? Number(given) : 0;
  if (hours < 1 || hours > MOST_HOURS)
    throw new ProtocolError('invalid_envelope', `The query parameter hours must be a number from 1 to ${MOST_HOURS}`);
  return hours;
}

type Place = Pick<ScoreRow, 'evaluator' | 'upstream' | 'target' | 'since'>;

const keyOf = ({ evaluator, upstream, target, since }: Place): string =>
  [evaluator, upstream, target, since].join('\0');

/** Reads the cursor; names contain no NUL. */
function placeOf(key: string): Place {
  const [evaluator = '', upstream = '', target = '', since] = key.split('\0');
  if (!/^\d{1,15}$/.test(since ?? ''))
    throw new ProtocolError('invalid_cursor', 'The cursor is not valid; start again without it');
  return { evaluator, upstream, target, since: Number(since) };
}

/** The scores in the form of the API: from 0 to 1. */
const shown = ({ evaluator, upstream, target, since, count, total, lowest, lowestRequest }: ScoreRow): object => ({
  ...{ evaluator, server: upstream, tool: target, since, count },
  mean: Math.round(total / count) / 1_000,
  lowest: lowest / 1_000,
  lowestRequestId: lowestRequest,
});
