import { describe, expect, it } from 'vitest';
import { Learning } from './learning.js';
import { termsOf } from './tokenize.js';
import { ToolRanking } from './tool-ranking.js';
import type { SearchDocument } from './weighted-fields.js';

const TOPICS = ['calendar', 'invoice', 'ticket', 'photo', 'backup', 'contact', 'playlist', 'recipe', 'order', 'parcel'];
const VERBS = ['create', 'read', 'archive', 'share', 'export', 'count', 'rename', 'print'];

/** Eighty tools whose words overlap, so that many scores are close. */
function index(): ToolRanking {
  const found = new ToolRanking();
  for (const topic of TOPICS) {
    const tools = VERBS.map(
      (verb): SearchDocument => ({ name: `${verb}_${topic}`, description: `${verb} one ${topic}` }),
    );
    found.set({ name: topic }, tools);
  }
  return found;
}

/** Search words that no description contains, as if people said "snapshot" where the tool says "photo". */
const SLANG = new Map(TOPICS.map((topic, number) => [topic, `slang${String.fromCharCode(97 + number)}word`]));

function teach(learning: Learning, callers: readonly string[], searches = 4): void {
  for (const topic of TOPICS) {
    for (const verb of VERBS.slice(0, 4)) {
      for (let number = 0; number < searches; number += 1) {
        const caller = callers[number % callers.length];
        const text = `${verb} ${SLANG.get(topic)} ${['quickly', 'tomorrow', 'again', 'quietly'][number % 4]}`;
        learning.record({ caller, terms: termsOf(text), tool: { server: topic, name: `${verb}_${topic}` } });
      }
    }
  }
}

const top = (tools: ToolRanking, learning: Learning, caller: string | undefined, query: string): string[] =>
  tools.search(query, { limit: 5, learned: learning.for(caller) }).map(({ name }) => name);

describe('Learning', () => {
  it('learns words that only successful searches contain and no description has', () => {
    const tools = index();
    const learning = new Learning();
    teach(learning, ['ann', 'ben', 'cid', 'dan']);
    expect(top(tools, learning, 'eve', 'create slangcword later')[0]).not.toBe('create_ticket');
    learning.replay(tools);
    expect(learning.weights.terms + learning.weights.votes).toBeGreaterThan(0);
    expect(top(tools, learning, 'eve', 'create slangcword later')[0]).toBe('create_ticket');
  });

  it('a single caller learns from its own searches', () => {
    const tools = index();
    const learning = new Learning();
    teach(learning, ['ann']);
    learning.replay(tools);
    expect(top(tools, learning, 'ann', 'share slangeword')[0]).toBe('share_backup');
  });

  it('keeps the weights at 0 while the replay does not improve', () => {
    const tools = index();
    const learning = new Learning();
    for (const topic of TOPICS) {
      learning.record({
        caller: 'ann',
        terms: termsOf(`create ${topic}`),
        tool: { server: topic, name: `create_${topic}` },
      });
    }
    expect(learning.replay(tools)).toEqual({ terms: 0, votes: 0 });
    expect(learning.for('ann')).toBeUndefined();
  });

  it('ignores callers without authentication and forgets on request', () => {
    const learning = new Learning();
    teach(learning, ['ann', 'ben']);
    const before = learning.outcomes.size;
    learning.record({ caller: undefined, terms: ['x'], tool: { server: 'photo', name: 'read_photo' } });
    expect(learning.outcomes.size).toBe(before);
    learning.forget('ann');
    expect(learning.outcomes.size).toBe(before / 2);
    learning.forget();
    expect(learning.outcomes.size).toBe(0);
  });

  it('limits the outcomes of one caller and of all', () => {
    const learning = new Learning({ most: 100, mostPerCaller: 60 });
    for (let number = 0; number < 1_000; number += 1) {
      const tool = { server: 'photo', name: 'read_photo' };
      learning.record({ caller: number % 10 === 0 ? 'ann' : 'mallory', terms: [`word${number}`], tool });
    }
    expect(learning.outcomes.size).toBe(100);
    expect([...learning.outcomes].filter(({ caller }) => caller === 'ann').length).toBeGreaterThanOrEqual(40);
  });
});

describe('the latest outcomes decide', () => {
  const WEIGHTS = { terms: 0.45, votes: 0.45 };
  const tools = index();
  const photo = { server: 'photo', name: 'share_photo' };
  const parcel = { server: 'parcel', name: 'share_parcel' };
  const search = (learning: Learning, caller: string): string[] =>
    tools.search('share zorp', { limit: 2, learned: learning.for(caller, WEIGHTS) }).map(({ name }) => name);
  const teachOne = (learning: Learning, caller: string, number: number, tool: typeof photo): void =>
    learning.record({ caller, terms: ['share', 'zorp', `word${number}`], tool });

  it('of a caller that now uses another tool for the same search', () => {
    const learning = new Learning();
    for (let number = 0; number < 40; number += 1) teachOne(learning, 'ann', number, photo);
    expect(search(learning, 'ann')[0]).toBe('share_photo');
    for (let number = 40; number < 80; number += 1) teachOne(learning, 'ann', number, parcel);
    expect(search(learning, 'ann')[0]).toBe('share_parcel');
  });

  it('of the caller itself, however many other callers have outcomes with the same words', () => {
    const learning = new Learning();
    for (let other = 0; other < 60; other += 1)
      for (let number = 0; number < 3; number += 1) teachOne(learning, `other${other}`, number, photo);
    for (let number = 0; number < 3; number += 1) teachOne(learning, 'ann', number, parcel);
    expect(search(learning, 'ann')).toContain('share_parcel');
  });

  it.each([
    ['a burst of other callers', (number: number) => `old${number}`, 1],
    ['another tenant', (number: number) => `north.${number}`, 1],
    ['loud callers', (number: number) => `loud${number}`, 60],
  ])('of new callers, even after outcomes of %s', (_, caller, each) => {
    const learning = new Learning();
    for (let number = 0; number < 50; number += 1)
      for (let search = 0; search < each; search += 1)
        teachOne(learning, caller(number), number * each + search, photo);
    for (let number = 0; number < 120; number += 1)
      learning.record({ caller: `quiet${number}`, terms: ['something'], tool: photo });
    for (const late of ['ben', 'cid', 'dan', 'eva'])
      for (let number = 0; number < 3; number += 1) teachOne(learning, late, number, parcel);
    learning.outcomes.measureLoudness();
    expect(search(learning, 'newcomer')).toContain('share_parcel');
  });

  it('in a replay, even after an old burst of many callers', () => {
    const learning = new Learning();
    for (let number = 0; number < 300; number += 1) teachOne(learning, `old${number}`, number, photo);
    teachOne(learning, 'ann', 1, parcel);
    expect(learning.outcomes.latest(200)[0]).toMatchObject({ caller: 'ann', tool: parcel });
  });

  it('of the own tenant only: searches of another tenant do not count toward the minimum for a term', () => {
    const learning = new Learning();
    teachOne(learning, 'north.ann', 1, parcel);
    for (let number = 2; number < 10; number += 1) teachOne(learning, 'south.ben', number, parcel);
    const learned = learning.for('north.ann', { terms: 0.8, votes: 0 });
    expect(learned!.suggestions(['zorp'], () => 1)).toEqual([]);
  });
});

describe('poisoning', () => {
  const honest = ['ann', 'ben', 'cid', 'dan', 'eva', 'fay'];
  const queries = TOPICS.flatMap((topic) =>
    VERBS.flatMap((verb) => [`${verb} one ${topic}`, `${verb} ${SLANG.get(topic)} tomorrow`, `${verb} something`]),
  );

  /** The most ranks by which a tool of the top 5 moves. A tool outside the top 5 counts as rank 6. */
  function mostMoved(before: readonly string[], after: readonly string[]): number {
    const rank = (list: readonly string[], name: string): number => (list.includes(name) ? list.indexOf(name) : 5);
    return Math.max(0, ...[...before, ...after].map((name) => Math.abs(rank(before, name) - rank(after, name))));
  }

  it.each([
    ['for one tool', () => ({ server: 'parcel', name: 'print_parcel' })],
    [
      'for many tools',
      (number: number) => {
        const topic = TOPICS[number % TOPICS.length]!;
        return { server: topic, name: `${VERBS[number % VERBS.length]}_${topic}` };
      },
    ],
  ])(
    '10,000 false successes of one caller %s move no tool in another caller’s top 5 by more than one rank',
    (_, toolOf) => {
      const tools = index();
      const learning = new Learning();
      teach(learning, honest, 6);
      learning.replay(tools);
      const searchers = ['ann', 'newcomer', undefined];
      const before = searchers.map((caller) => queries.map((query) => top(tools, learning, caller, query)));
      for (let number = 0; number < 10_000; number += 1) {
        const text = `${queries[number % queries.length]} extra${number}x`;
        learning.record({ caller: 'mallory', terms: termsOf(text), tool: toolOf(number) });
      }
      learning.replay(tools);
      for (const [who, caller] of searchers.entries()) {
        for (const [number, query] of queries.entries()) {
          const after = top(tools, learning, caller, query);
          expect(mostMoved(before[who]![number]!, after), `${caller}: ${query}`).toBeLessThanOrEqual(1);
        }
      }
    },
  );
});
