/** Many parked calls of many callers. A seed determines the fate of each call. */
import { accept, answerOf, answersTo, asked, ModernClient } from './clients.js';
import { type Exchange, eventually, type Message, sleep } from './wire.js';
import { tokenOf } from './world.js';

export const FATES = [
  'accept',
  'decline',
  'cancel',
  'rounds',
  'missing',
  'twice',
  'differently',
  'disconnect',
  'expire',
] as const;
export type Fate = (typeof FATES)[number];

export interface Planned {
  readonly key: string;
  readonly caller: string;
  readonly server: string;
  readonly fate: Fate;
  readonly rounds: number;
  /** Milliseconds until the person answers a question. */
  readonly thinking: number;
}

/** What the caller of a call received. */
export interface Seen extends Planned {
  /** Answers that ended the call: results and errors, one for each request that was answered. */
  readonly ends: Message[];
  /** Answers to requests that repeat another request. */
  readonly refused: Message[];
  /** Deviations from the expected behaviour. */
  readonly faults: string[];
}

/** A random generator in [0, 1) that gives the same numbers for the same seed. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export const callerNames = (count: number): string[] => Array.from({ length: count }, (_, n) => `caller-${n}`);

/** Makes the plan of the calls. Servers whose sessions serve one call at a time get fewer calls. */
export function plan(calls: number, callers: number, seed: number, servers: readonly [string, number][]): Planned[] {
  const draw = random(seed);
  const weight = servers.reduce((sum, [, share]) => sum + share, 0);
  const serverFor = (): string => {
    let at = draw() * weight;
    for (const [name, share] of servers) {
      at -= share;
      if (at < 0) return name;
    }
    return servers[0]![0];
  };
  return Array.from({ length: calls }, (_, n) => {
    const fate = FATES[n % FATES.length]!;
    return {
      key: `call-${n}`,
      caller: `caller-${n % callers}`,
      server: serverFor(),
      fate,
      rounds: fate === 'rounds' ? 2 + Math.floor(draw() * 3) : 1,
      thinking: Math.floor(draw() * 200),
    };
  });
}

/** Milliseconds that the tool works after an answer. Meanwhile a second request arrives, or the caller disconnects. */
const AT_WORK: Partial<Record<Fate, number>> = { twice: 3_000, differently: 3_000, disconnect: 600_000 };

export interface Scene {
  url(server: string): string;
  /** Whether the server has received the answer of this call. */
  answered(key: string): boolean;
  readonly parkTtl: number;
}

/** Makes one call and acts according to its fate. */
export async function live(planned: Planned, { url, answered, parkTtl }: Scene): Promise<Seen> {
  const seen: Seen = { ...planned, ends: [], refused: [], faults: [] };
  const client = new ModernClient(url(planned.server), undefined, tokenOf(planned.caller));
  const wait = AT_WORK[planned.fate];
  const args = { key: planned.key, rounds: planned.rounds, ...(wait && { wait }) };
  try {
    let said = await client.call('ask', args);
    for (let round = 1; ; round++) {
      if (said.result?.resultType !== 'input_required') {
        seen.ends.push(said);
        return seen;
      }
      expectQuestion(seen, said, round);
      const state: string = said.result.requestState;
      const answer = answerFor(planned, round);
      const answers = { inputResponses: answersTo(said, answer), requestState: state };
      const again = (other: object = answers.inputResponses): Exchange =>
        client.startCall('ask', args, { inputResponses: other, requestState: state });
      if (planned.fate === 'expire') {
        await sleep(parkTtl + 500);
        seen.ends.push(await answerOf(again()));
        return seen;
      }
      await sleep(planned.thinking);
      if (planned.fate === 'missing') {
        const repeated = await answerOf(again({ 'not-asked': accept() }));
        expectQuestion(seen, repeated, round);
        seen.ends.push(
          await client.call('ask', args, {
            inputResponses: answersTo(repeated, answer),
            requestState: repeated.result?.requestState,
          }),
        );
        return seen;
      }
      if (planned.fate === 'twice') {
        const [first, second] = await Promise.all([answerOf(again()), answerOf(again())]);
        seen.ends.push(first);
        if (JSON.stringify(second.result?.content) !== JSON.stringify(first.result?.content))
          seen.faults.push(`the same answer twice: ${JSON.stringify(second)}`);
        return seen;
      }
      if (planned.fate === 'differently') {
        const first = again();
        await eventually(() => answered(planned.key), Boolean, 30_000);
        const other = answersTo(said, accept({ answer: 'something else' }));
        seen.refused.push(await answerOf(again(other)));
        seen.ends.push(await answerOf(first));
        return seen;
      }
      if (planned.fate === 'disconnect') {
        const gone = again();
        await eventually(() => answered(planned.key), Boolean, 30_000);
        gone.abort();
        await gone.ended;
        return seen;
      }
      said = await client.call('ask', args, answers);
    }
  } catch (error) {
    seen.faults.push(String(error));
    return seen;
  }
}

function expectQuestion({ key, faults }: Seen, said: Message, round: number): void {
  try {
    const questions = Object.values(asked(said));
    const right = questions.length === 1 && questions[0]?.params['message'] === `${key} question ${round}`;
    if (!right) faults.push(`asked ${JSON.stringify(questions)} in round ${round}`);
  } catch (error) {
    faults.push(String(error));
  }
}

const ANSWERS: Partial<Record<Fate, { action: string }>> = {
  decline: { action: 'decline' },
  cancel: { action: 'cancel' },
};

const answerFor = ({ fate, key }: Planned, round: number): Record<string, unknown> =>
  ANSWERS[fate] ?? accept({ answer: `${key}/${round}` });

/** The text of the tool's result, if its caller waits for it. */
export function endingOf({ key, fate, rounds }: Planned): string | undefined {
  if (fate === 'disconnect' || fate === 'expire') return undefined;
  const said = Array.from({ length: rounds }, (_, n) => ANSWERS[fate]?.action ?? `${key}/${n + 1}`);
  return `${key}: ${said.join(', ')}`;
}
