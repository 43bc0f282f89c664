/**
 * Servers whose messages do not name a call: messages caused by one call reach the caller of this call only (mcp.md
 * 4.1, BR-17).
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accept, answerOf, answersTo, asked, FORM, LegacyClient, ModernClient, textOf } from './support/clients.js';
import { type Exchange, eventually, type Message, sleep } from './support/wire.js';
import { descendants, fixtureProcesses, startWorld, tokenOf, tokensFor, type World } from './support/world.js';

const POOL = 2;
const PREFIX = 'io.modelcontextprotocol';
let world: World;

beforeAll(async () => {
  world = await startWorld({
    http: { older: { transport: 'sse' } },
    stdio: { pipe: { pool: POOL } },
    config: { auth: tokensFor(['alice', 'bob']), bridge: { parkTtl: '30s' } },
  });
});
afterAll(() => world?.close());

const chatty = (key: string) => ({ meta: { progressToken: `token of ${key}`, [`${PREFIX}/logLevel`]: 'debug' } });

/** The messages of a reply other than the response. */
const words = (exchange: Exchange): string[] =>
  exchange.messages.filter(({ method }) => method !== undefined).map(({ params }) => JSON.stringify(params));

describe.each(['pipe', 'older'])('%s', (server) => {
  const client = (name: string): ModernClient => new ModernClient(world.at(server), FORM, tokenOf(name));

  test('questions, logs and progress of two concurrent callers never reach the other caller', async () => {
    for (let turn = 0; turn < 5; turn++) {
      const both = await Promise.all(
        ['alice', 'bob'].map(async (name) => {
          const key = `${server}-${name}-${turn}`;
          const first = client(name).startCall('chatter', { key }, chatty(key));
          const parked = await answerOf(first);
          const second = client(name).startCall(
            'chatter',
            { key },
            {
              ...chatty(key),
              inputResponses: answersTo(parked, accept({ answer: key })),
              requestState: parked.result.requestState,
            },
          );
          const ended = await answerOf(second);
          return { key, parked, ended, said: [...words(first), ...words(second)] };
        }),
      );
      for (const { key, parked, ended, said } of both) {
        expect(Object.values(asked(parked)).map(({ params }) => params['message'])).toEqual([`${key} question`]);
        expect(textOf(ended)).toBe(`${key}: done`);
        expect(said.filter((line) => !line.includes(key))).toEqual([]);
        // The call has its session to itself, so its logs and progress arrive: six of each over both rounds.
        expect(said.filter((line) => line.includes(' log ')).length).toBe(6);
        expect(said.filter((line) => line.includes('"progress"')).length).toBe(6);
      }
    }
  });

  test('two legacy sessions of one caller are kept apart too', async () => {
    const clients = await Promise.all(
      ['a', 'b'].map(async (mark) => {
        const legacy = await LegacyClient.open(
          world.at(server),
          '2025-06-18',
          { elicitation: {} },
          { token: tokenOf('alice') },
        );
        const key = `${server}-session-${mark}`;
        legacy.answer = ({ params }) =>
          params.message.includes(key) ? accept({ answer: 'mine' }) : { action: 'decline' };
        return { legacy, key };
      }),
    );
    const ended = await Promise.all(
      clients.map(({ legacy, key }) => legacy.call('chatter', { key }, { _meta: { progressToken: key } })),
    );
    expect(ended.map(textOf)).toEqual(clients.map(({ key }) => `${key}: done`));
    for (const { legacy, key } of clients) {
      const said = legacy.heard.filter(({ method }) => method !== 'notifications/tools/list_changed');
      expect(said.filter(({ params }) => !JSON.stringify(params).includes(key))).toEqual([]);
      expect(said.length).toBeGreaterThan(1);
      await legacy.end();
    }
  });

  test('calls beyond the pool wait, and run when a session is free', async () => {
    const size = server === 'pipe' ? POOL : 4;
    const names = Array.from({ length: size + 2 }, (_, n) => (n % 2 === 0 ? 'alice' : 'bob'));
    const calls = names.map((name, n) => ({ name, key: `${server}-pool-${n}` }));
    const opened = calls.map(({ name, key }) => answerOf(client(name).startCall('ask', { key })));
    const parked: (Message | undefined)[] = calls.map(() => undefined);
    for (const [n, one] of opened.entries())
      void one.then((message) => {
        parked[n] = message;
      });
    await eventually(
      () => parked.filter(Boolean).length,
      (count) => count >= size,
    );
    await sleep(300);
    expect(parked.filter(Boolean).length).toBe(size);
    expect(world.entries().filter(({ kind, key }) => kind === 'run' && key?.startsWith(`${server}-pool-`)).length).toBe(
      size,
    );
    const waiting = new Set(calls.keys());
    while (waiting.size > 0) {
      const n = await eventually(
        () => [...waiting].find((one) => parked[one]),
        (found) => found !== undefined,
      );
      const { name, key } = calls[n!]!;
      const ended = await client(name).call(
        'ask',
        { key },
        {
          inputResponses: answersTo(parked[n!]!, accept({ answer: 'yes' })),
          requestState: parked[n!]!.result.requestState,
        },
      );
      expect(textOf(ended)).toBe(`${key}: yes`);
      waiting.delete(n!);
    }
  });

  test('a call whose caller left while it waited never reaches the server, and opens no session', async () => {
    const size = server === 'pipe' ? POOL : 4;
    const opened = (): number => world.entries().filter(({ kind }) => kind === 'initialize').length;
    const holding = await Promise.all(
      Array.from({ length: size }, async (_, n) => {
        const args = { key: `${server}-holds-${n}` };
        return { args, parked: await client('alice').call('ask', args) };
      }),
    );
    const before = opened();
    const waiting = client('bob').startCall('ask', { key: `${server}-left` });
    await sleep(200);
    waiting.abort();
    await waiting.ended;
    for (const { args, parked } of holding)
      await client('alice').call('ask', args, {
        inputResponses: answersTo(parked, accept({ answer: 'yes' })),
        requestState: parked.result.requestState,
      });
    const args = { key: `${server}-next` };
    const next = await client('bob').call('ask', args);
    await client('bob').call('ask', args, {
      inputResponses: answersTo(next, accept({ answer: 'yes' })),
      requestState: next.result.requestState,
    });
    await sleep(800);
    expect(world.entries().filter(({ key }) => key === `${server}-left`)).toEqual([]);
    expect(opened()).toBe(before);
  });

  test('a question of a call that continues after its cancellation reaches no other caller', async () => {
    const key = `${server}-ghost`;
    const parked = await client('alice').call('stubborn', { key, wait: 600 });
    const resumed = client('alice').startCall(
      'stubborn',
      { key, wait: 600 },
      {
        inputResponses: answersTo(parked, accept({ answer: 'go' })),
        requestState: parked.result.requestState,
      },
    );
    await eventually(
      () => world.entries(),
      (entries) => entries.some((entry) => entry.kind === 'answered' && entry.key === key),
    );
    resumed.abort();
    await eventually(
      () => world.entries(),
      (entries) => entries.some((entry) => entry.kind === 'cancelled' && entry.key === key),
    );
    // Calls of another caller take every session of the pool while the cancelled handler still runs.
    const others = await Promise.all(
      Array.from({ length: server === 'pipe' ? POOL : 4 }, async (_, n) => {
        const other = `${server}-after-${n}`;
        const exchange = client('bob').startCall('chatter', { key: other }, chatty(other));
        const first = await answerOf(exchange);
        await sleep(1_000);
        const second = client('bob').startCall(
          'chatter',
          { key: other },
          {
            ...chatty(other),
            inputResponses: answersTo(first, accept({ answer: 'yes' })),
            requestState: first.result.requestState,
          },
        );
        const ended = await answerOf(second);
        return { other, first, ended, said: [...words(exchange), ...words(second)] };
      }),
    );
    for (const { other, first, ended, said } of others) {
      expect(Object.values(asked(first)).map(({ params }) => params['message'])).toEqual([`${other} question`]);
      expect(textOf(ended)).toBe(`${other}: done`);
      expect(said.filter((line) => line.includes(key))).toEqual([]);
    }
  });
});

describe('the progress token and log level of a retry', () => {
  const args = { key: 'retry' };
  const begin = async (): Promise<{ client: ModernClient; first: Exchange; parked: Message }> => {
    const client = new ModernClient(world.at('older'), FORM, tokenOf('alice'));
    const first = client.startCall('chatter', args, chatty('first'));
    return { client, first, parked: await answerOf(first) };
  };
  const again = (
    { client, parked }: { client: ModernClient; parked: Message },
    meta?: Record<string, unknown>,
  ): Exchange =>
    client.startCall('chatter', args, {
      ...(meta && { meta }),
      inputResponses: answersTo(parked, accept({ answer: 'yes' })),
      requestState: parked.result.requestState,
    });

  test('progress is reported under the token of the retry', async () => {
    const begun = await begin();
    const retry = again(begun, { progressToken: 'second', [`${PREFIX}/logLevel`]: 'debug' });
    expect(textOf(await answerOf(retry))).toBe('retry: done');
    const tokens = (exchange: Exchange): unknown[] => [
      ...new Set(exchange.messages.flatMap(({ params }) => params?.progressToken ?? [])),
    ];
    expect([tokens(begun.first), tokens(retry)]).toEqual([['token of first'], ['second']]);
  });

  test('without a token and a log level, the retry gets no notification', async () => {
    const retry = again(await begin());
    expect(textOf(await answerOf(retry))).toBe('retry: done');
    expect(words(retry)).toEqual([]);
  });

  test('with a higher log level, the retry gets no messages of lower levels', async () => {
    const retry = again(await begin(), { [`${PREFIX}/logLevel`]: 'error' });
    expect(textOf(await answerOf(retry))).toBe('retry: done');
    expect(words(retry)).toEqual([]);
  });
});

test('calls start no processes of their own: the processes of the pool are reused', async () => {
  const client = new ModernClient(world.at('pipe'), FORM, tokenOf('alice'));
  const one = async (n: number): Promise<void> => {
    const args = { key: `warm-${n}` };
    const parked = await client.call('ask', args);
    await client.call('ask', args, {
      inputResponses: answersTo(parked, accept({ answer: 'yes' })),
      requestState: parked.result.requestState,
    });
  };
  await one(0);
  const before = await descendants(world.gateway.pid);
  const started = world.entries().filter(({ kind }) => kind === 'started').length;
  for (let n = 1; n <= 20; n++) await one(n);
  expect(world.entries().filter(({ kind }) => kind === 'started').length).toBe(started);
  expect(await descendants(world.gateway.pid)).toEqual(before);
  expect(await fixtureProcesses(world.gateway.pid)).toBeLessThanOrEqual(POOL + 1);
});
