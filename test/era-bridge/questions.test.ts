/** Questions between revisions that express them differently (mcp.md 4.2, 4.3, 4.5, 4.10). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ModernFixture } from '../fixtures/era-bridge/modern.mjs';
import {
  ALL_QUESTIONS,
  accept,
  answersTo,
  asked,
  FORM,
  LegacyClient,
  ModernClient,
  textOf,
} from './support/clients.js';
import { eventually, type Message, sleep } from './support/wire.js';
import { runsOf, startWorld, type World } from './support/world.js';

const URLS = { elicitation: { form: {}, url: {} } };
let world: World;
let modern: ModernFixture;

beforeAll(async () => {
  modern = await new ModernFixture().start();
  world = await startWorld({
    http: { legacy: { eventIds: true }, old: { revision: '2025-06-18' }, older: { transport: 'sse' } },
    stdio: { pipe: {} },
    servers: { modern: { url: modern.url } },
  });
});
afterAll(async () => {
  await world?.close();
  await modern?.close();
});

const answered = (key: string) =>
  world
    .entries()
    .filter((entry) => entry.kind === 'answered' && entry.key === key)
    .map(({ result, error }) => result ?? error);

/**
 * Makes a call of a client that answers every question with `answer`. Returns the questions and the result of the call.
 */
async function converse(
  revision: string,
  capabilities: object,
  server: string,
  [name, args]: [string, object],
  answer: (question: Message) => Record<string, unknown>,
): Promise<{ ended: Message; questions: Message[] }> {
  const client = await LegacyClient.open(world.at(server), revision, capabilities as Record<string, unknown>);
  client.answer = answer;
  const ended = await client.call(name, args as Record<string, unknown>);
  await client.end();
  return { ended, questions: client.heard.filter(({ id }) => id !== undefined) };
}

describe('S1-04: forms', () => {
  const choice = { size: 'l', count: 1, gift: false };
  const PLAINER = {
    type: 'object',
    properties: {
      size: { type: 'string', enum: ['s', 'l'], enumNames: ['Small', 'Large'] },
      count: { type: 'integer' },
      gift: { type: 'boolean', default: true },
    },
    required: ['size'],
  };

  test.each(['modern', 'legacy'])(
    '%s server, client of 2025-06-18: the form has enumNames, defaults of booleans only, and no mode',
    async (server) => {
      const { ended, questions } = await converse(
        '2025-06-18',
        { elicitation: {} },
        server,
        ['choose', { key: 'c' }],
        () => accept(choice),
      );
      expect(questions.map(({ params }) => params.requestedSchema)).toEqual([PLAINER]);
      expect(questions[0]?.params.mode).toBeUndefined();
      expect(textOf(ended)).toContain(JSON.stringify(choice));
    },
  );

  test.each(['modern', 'legacy'])('%s server, client of 2025-11-25: the form is unchanged', async (server) => {
    const { questions } = await converse('2025-11-25', FORM, server, ['choose', { key: 'c' }], () => accept(choice));
    expect(questions[0]?.params.requestedSchema.properties).toEqual({
      size: {
        type: 'string',
        oneOf: [
          { const: 's', title: 'Small' },
          { const: 'l', title: 'Large' },
        ],
        default: 's',
      },
      count: { type: 'integer', default: 3 },
      gift: { type: 'boolean', default: true },
    });
  });

  test('modern server, client of 2025-06-18: a form with a multiple choice is refused with the reason, and not answered for the person', async () => {
    const { ended, questions } = await converse(
      '2025-06-18',
      { elicitation: {} },
      'modern',
      ['choose', { key: 's', several: true }],
      () => accept({}),
    );
    expect(questions).toEqual([]);
    expect(ended.result).toMatchObject({ isError: true });
    expect(textOf(ended)).toMatch(/several choices/);
    expect(modern.entries.filter(({ params, key }) => key === 's' && params['inputResponses'])).toEqual([]);
  });

  test('legacy server, client of 2025-06-18: a form with a multiple choice gets an error, not a cancel in the name of the person', async () => {
    const { questions } = await converse(
      '2025-06-18',
      { elicitation: {} },
      'legacy',
      ['choose', { key: 'several', several: true }],
      () => accept({}),
    );
    expect(questions).toEqual([]);
    expect(answered('several')).toMatchObject([
      { code: expect.any(Number), message: expect.stringMatching(/several choices/) },
    ]);
  });

  test('an error of a legacy client while it answers counts as cancel', async () => {
    const { ended } = await converse('2025-11-25', FORM, 'legacy', ['ask', { key: 'failing' }], () => ({
      error: { code: -32000, message: 'no window' },
    }));
    expect(textOf(ended)).toBe('failing: cancel');
  });
});

describe('S0-50, S1-21: sampling', () => {
  const sampled = { role: 'assistant', model: 'm', content: { type: 'text', text: 'so it is' } };
  const TOOLS = [{ name: 't', inputSchema: { type: 'object' } }];

  test.each(['modern', 'legacy'])('%s server: includeContext never reaches the client', async (server) => {
    const args = { key: 'context', includeContext: 'allServers' };
    const { questions } = await converse(
      '2025-11-25',
      { sampling: { context: {} } },
      server,
      ['sample', args],
      () => sampled,
    );
    expect(questions).toHaveLength(1);
    expect(questions[0]?.params.includeContext ?? 'none').toBe('none');
    const client = new ModernClient(world.at(server), { sampling: { context: {} } });
    const [question] = Object.values(asked(await client.call('sample', args)));
    expect(question?.params['includeContext'] ?? 'none').toBe('none');
    const everyone = [...modern.entries, ...world.entries()].map(({ capabilities }) => capabilities?.['sampling']);
    expect(everyone.filter((declared) => declared !== undefined && JSON.stringify(declared) !== '{}')).toEqual([]);
    expect(everyone).toContainEqual({});
  });

  test('modern server, client of 2025-06-18: a message of several blocks becomes several messages', async () => {
    const messages = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'one' },
          { type: 'text', text: 'two' },
        ],
      },
      { role: 'assistant', content: { type: 'text', text: 'three' } },
    ];
    const { ended, questions } = await converse(
      '2025-06-18',
      { sampling: {} },
      'modern',
      ['sample', { key: 'split', messages }],
      () => sampled,
    );
    expect(questions[0]?.params.messages).toEqual([
      { role: 'user', content: { type: 'text', text: 'one' } },
      { role: 'user', content: { type: 'text', text: 'two' } },
      { role: 'assistant', content: { type: 'text', text: 'three' } },
    ]);
    expect(textOf(ended)).toContain('so it is');
  });

  test('old server, modern client: only the first of several blocks in an answer reaches the server', async () => {
    const client = new ModernClient(world.at('old'), { sampling: {} });
    const parked = await client.call('sample', { key: 'blocks' });
    const content = [
      { type: 'text', text: 'first' },
      { type: 'text', text: 'second' },
    ];
    const ended = await client.call(
      'sample',
      { key: 'blocks' },
      {
        inputResponses: answersTo(parked, { ...sampled, content }),
        requestState: parked.result.requestState,
      },
    );
    expect(textOf(ended)).toBe('blocks: {"type":"text","text":"first"}');
  });

  test.each([
    ['modern', '2025-06-18'],
    ['modern', '2025-03-26'],
    ['legacy', '2025-06-18'],
    ['legacy', '2024-11-05'],
  ])(
    '%s server with tools, client of %s: the question is refused with the reason, and the client is not asked',
    async (server, revision) => {
      const args = { key: `tools-${server}-${revision}`, tools: TOOLS };
      const { ended, questions } = await converse(
        revision,
        { sampling: { tools: {} } },
        server,
        ['sample', args],
        () => sampled,
      );
      expect(questions).toEqual([]);
      expect(ended.result).toMatchObject({ isError: true });
      expect(textOf(ended)).toMatch(/sampling\.tools/);
    },
  );

  test('S1-07: a client of 2025-11-25 that declares tools gets the question with its tools', async () => {
    const args = { key: 'tools', tools: TOOLS };
    for (const server of ['modern', 'legacy']) {
      const { questions } = await converse(
        '2025-11-25',
        { sampling: { tools: {} } },
        server,
        ['sample', args],
        () => sampled,
      );
      expect(questions[0]?.params.tools).toEqual(TOOLS);
    }
  });

  test('a client that rejects: a legacy server gets the error, a modern server is not called again', async () => {
    const reject = () => ({ error: { code: -1, message: 'User rejected' } });
    await converse('2025-11-25', { sampling: {} }, 'legacy', ['sample', { key: 'rejected' }], reject);
    expect(answered('rejected')).toMatchObject([{ code: -1, message: 'User rejected' }]);
    const { ended } = await converse('2025-11-25', { sampling: {} }, 'modern', ['sample', { key: 'rejected' }], reject);
    expect(ended.result).toMatchObject({ isError: true });
    expect(modern.entries.filter(({ key }) => key === 'rejected')).toHaveLength(1);
  });
});

describe('S0-24: a client without the capability', () => {
  test.each([
    ['modern', 'ask'],
    ['modern', 'sample'],
    ['modern', 'roots'],
    ['legacy', 'ask'],
    ['legacy', 'sample'],
    ['legacy', 'roots'],
    ['pipe', 'ask'],
    ['older', 'ask'],
  ])('%s server, %s: refused with the reason in every revision', async (server, tool) => {
    for (const revision of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
      const { ended, questions } = await converse(revision, {}, server, [tool, { key: 'none' }], () => ({}));
      expect(questions).toEqual([]);
      expect(ended.result).toMatchObject({ isError: true });
      expect(textOf(ended)).toMatch(/elicitation|sampling|roots/);
    }
    const { error } = await new ModernClient(world.at(server), {}).call(tool, { key: 'none' });
    expect(error).toMatchObject({ code: -32021, data: { requiredCapabilities: expect.any(Object) } });
  });
});

describe('roots', () => {
  test('S1-20: the roots of a legacy client reach a legacy server, and so do notifications of changed roots', async () => {
    const client = await LegacyClient.open(world.at('legacy'), '2025-11-25', { roots: { listChanged: true } });
    const roots = [{ uri: 'file:///home/a', name: 'a' }];
    client.answer = () => ({ roots });
    expect(textOf(await client.call('roots', { key: 'r' }))).toBe(`r: ${JSON.stringify(roots)}`);
    const changes = () =>
      world.entries().filter(({ kind, method }) => kind === 'told' && method === 'notifications/roots/list_changed')
        .length;
    const before = changes();
    await client.tell('notifications/roots/list_changed');
    await eventually(changes, (count) => count === before + 1);
    await client.end();
  });

  test('the gateway declares no roots.listChanged on sessions that several callers use in turn', async () => {
    for (const server of ['pipe', 'older']) {
      const client = await LegacyClient.open(world.at(server), '2025-11-25', { roots: { listChanged: true } });
      client.answer = () => ({ roots: [] });
      expect(textOf(await client.call('roots', { key: 'lent' }))).toBe('lent: []');
      await client.end();
    }
    const able = new Set(world.fixtures['legacy']!.entries.concat(world.fixtures['old']!.entries));
    const declared = world
      .entries()
      .filter((entry) => entry.kind === 'initialize' && !able.has(entry))
      .flatMap(({ capabilities }) => capabilities?.['roots'] ?? []);
    expect(declared.length).toBeGreaterThanOrEqual(2);
    expect(declared).toEqual(declared.map(() => ({})));
  });

  test('the roots of a modern client reach servers of both eras', async () => {
    for (const server of ['legacy', 'modern', 'pipe']) {
      const client = new ModernClient(world.at(server), { roots: {} });
      const parked = await client.call('roots', { key: 'r' });
      expect(Object.values(asked(parked))).toMatchObject([{ method: 'roots/list' }]);
      const ended = await client.call(
        'roots',
        { key: 'r' },
        {
          inputResponses: answersTo(parked, { roots: [{ uri: 'file:///home/b' }] }),
          requestState: parked.result.requestState,
        },
      );
      expect(textOf(ended)).toContain('file:///home/b');
    }
  });
});

describe('S1-04: URL mode', () => {
  test('legacy server, modern client, question during a call: inputRequests contains no elicitationId', async () => {
    const client = new ModernClient(world.at('legacy'), URLS);
    const parked = await client.call('visit', { key: 'v1' });
    expect(Object.values(asked(parked))).toEqual([
      {
        method: 'elicitation/create',
        params: { mode: 'url', message: 'v1 visit', url: 'https://example.test/visit/v1' },
      },
    ]);
    const ended = await client.call(
      'visit',
      { key: 'v1' },
      {
        inputResponses: answersTo(parked, { action: 'accept' }),
        requestState: parked.result.requestState,
      },
    );
    expect(textOf(ended)).toBe('v1: accept');
  });

  test('legacy server, client of 2025-11-25: asked on the stream of its call with an id, and notified of the completion', async () => {
    const client = await LegacyClient.open(world.at('legacy'), '2025-11-25', URLS);
    client.answer = () => ({ action: 'accept' });
    expect(textOf(await client.call('visit', { key: 'v2' }))).toBe('v2: accept');
    const [question] = client.heard.filter(({ id }) => id !== undefined);
    expect(question?.params).toMatchObject({
      mode: 'url',
      url: 'https://example.test/visit/v2',
      elicitationId: expect.any(String),
    });
    await eventually(
      () => client.heard,
      (heard) =>
        heard.some(
          ({ method, params }) =>
            method === 'notifications/elicitation/complete' && params.elicitationId === question?.params.elicitationId,
        ),
    );
    await client.end();
  });

  test('-32042 of a legacy server, modern client: input_required, and a new call after the page was visited', async () => {
    const client = new ModernClient(world.at('legacy'), URLS);
    const args = { key: 'first-1' };
    const question = await client.call('visit_first', args);
    const entries = Object.values(asked(question));
    expect(entries).toEqual([
      {
        method: 'elicitation/create',
        params: { mode: 'url', message: 'first-1 visit', url: 'https://example.test/first/first-1' },
      },
    ]);
    const retry = client.startCall('visit_first', args, {
      inputResponses: answersTo(question, { action: 'accept' }),
      requestState: question.result.requestState,
    });
    await sleep(400);
    // The call waits until the server reports the end of the visit.
    expect(runsOf(world.entries(), 'first-1')).toBe(1);
    world.fixtures['legacy']!.visited('first-first-1');
    const ended = (await retry.ended).find(({ method }) => method === undefined);
    expect(textOf(ended!)).toBe('first-1: visited');
    expect(runsOf(world.entries(), 'first-1')).toBe(2);
  });

  test('-32042, modern client that declines: the call is not repeated', async () => {
    const client = new ModernClient(world.at('legacy'), URLS);
    const args = { key: 'first-2' };
    const question = await client.call('visit_first', args);
    const ended = await client.call('visit_first', args, {
      inputResponses: answersTo(question, { action: 'decline' }),
      requestState: question.result.requestState,
    });
    expect(ended.result).toMatchObject({ isError: true });
    expect(runsOf(world.entries(), 'first-2')).toBe(1);
  });

  test('-32042, modern client without URL mode: -32021 names the missing capability', async () => {
    const exchange = new ModernClient(world.at('legacy'), FORM).startCall('visit_first', { key: 'first-3' });
    const [refused] = await exchange.ended;
    expect(refused?.error).toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { elicitation: { url: {} } } },
    });
    expect(exchange.status).toBe(400);
  });

  test('-32042, client of 2025-11-25: the error passes unchanged, and the notification of the completion follows', async () => {
    const client = await LegacyClient.open(world.at('legacy'), '2025-11-25', URLS);
    const { error } = await client.call('visit_first', { key: 'first-4' });
    expect(error).toMatchObject({
      code: -32042,
      data: { elicitations: [{ mode: 'url', url: 'https://example.test/first/first-4' }] },
    });
    const { elicitationId } = error!.data.elicitations[0];
    world.fixtures['legacy']!.visited('first-first-4');
    await eventually(
      () => client.heard,
      (heard) =>
        heard.some(
          ({ method, params }) =>
            method === 'notifications/elicitation/complete' && params.elicitationId === elicitationId,
        ),
      5_000,
    );
    expect(textOf(await client.call('visit_first', { key: 'first-4' }))).toBe('first-4: visited');
    await client.end();
  });

  test('-32042, older clients: the text for the model contains the URL of the page', async () => {
    const { ended } = await converse(
      '2025-06-18',
      { elicitation: {} },
      'legacy',
      ['visit_first', { key: 'first-5' }],
      () => ({}),
    );
    expect(ended.result).toMatchObject({ isError: true });
    expect(textOf(ended)).toContain('https://example.test/first/first-5');
  });

  test('modern server, client of 2025-11-25: one question, retries until the page was visited, then the notification of the completion', async () => {
    const client = await LegacyClient.open(world.at('modern'), '2025-11-25', URLS);
    client.answer = () => {
      setTimeout(() => modern.visited.add('https://example.test/v3'), 700);
      return { action: 'accept' };
    };
    expect(textOf(await client.call('visit', { key: 'v3' }))).toBe('v3: visited');
    const questions = client.heard.filter(({ id }) => id !== undefined);
    expect(questions).toHaveLength(1);
    expect(questions[0]?.params).toMatchObject({
      mode: 'url',
      url: 'https://example.test/v3',
      elicitationId: expect.any(String),
    });
    await eventually(
      () => client.heard,
      (heard) =>
        heard.some(
          ({ method, params }) =>
            method === 'notifications/elicitation/complete' &&
            params.elicitationId === questions[0]?.params.elicitationId,
        ),
    );
    await client.end();
  });

  test('modern server, client of 2025-11-25, page that is never visited: the call ends with -32042', async () => {
    const client = await LegacyClient.open(world.at('modern'), '2025-11-25', URLS);
    client.answer = () => ({ action: 'accept' });
    const { error } = await client.call('visit', { key: 'v4' });
    expect(error).toMatchObject({
      code: -32042,
      data: { elicitations: [{ mode: 'url', url: 'https://example.test/v4' }] },
    });
    const told = client.heard.filter(({ method }) => method === 'notifications/elicitation/complete');
    expect(told).toEqual([]);
    await client.end();
  });

  test('modern server, client of 2025-06-18: refused with the reason', async () => {
    const { ended, questions } = await converse(
      '2025-06-18',
      { elicitation: {} },
      'modern',
      ['visit', { key: 'v5' }],
      () => ({}),
    );
    expect(questions).toEqual([]);
    expect(ended.result).toMatchObject({ isError: true });
    expect(textOf(ended)).toMatch(/elicitation\.url/);
  });

  test('modern server, modern client: the state returns to the server unchanged', async () => {
    const client = new ModernClient(world.at('modern'), URLS);
    const question = await client.call('visit', { key: 'v6' });
    modern.visited.add('https://example.test/v6');
    const ended = await client.call(
      'visit',
      { key: 'v6' },
      {
        inputResponses: answersTo(question, { action: 'accept' }),
        requestState: question.result.requestState,
      },
    );
    expect(textOf(ended)).toBe('v6: visited');
    expect(modern.entries.filter(({ key }) => key === 'v6').map(({ params }) => params['requestState'])).toEqual([
      undefined,
      'v6',
    ]);
  });
});

describe('a legacy client that cancels its call while it is asked', () => {
  test.each(['legacy', 'old', 'older', 'pipe'])(
    '%s: the server gets an answer at once, and the client a cancellation of the question',
    async (server) => {
      const key = `cancelled-${server}`;
      const client = await LegacyClient.open(world.at(server), '2025-11-25', ALL_QUESTIONS);
      const { id } = client.start('tools/call', { name: 'ask', arguments: { key } });
      await eventually(
        () => client.heard,
        (heard) => heard.some(({ method }) => method === 'elicitation/create'),
      );
      await client.tell('notifications/cancelled', { requestId: id });
      await eventually(
        () => answered(key),
        (answers) => answers.length === 1,
        5_000,
      );
      await eventually(
        () => client.heard,
        (heard) => heard.some(({ method }) => method === 'notifications/cancelled'),
      );
      await client.end();
    },
  );

  test.each(['legacy', 'pipe'])('%s: the end of a session ends its open questions', async (server) => {
    const key = `ended-${server}`;
    const replies = (): number => world.fixtures[server]?.open.reply ?? 0;
    const before = replies();
    const client = await LegacyClient.open(world.at(server), '2025-11-25', FORM);
    client.start('tools/call', { name: 'ask', arguments: { key } });
    await eventually(
      () => client.heard,
      (heard) => heard.some(({ method }) => method === 'elicitation/create'),
    );
    await client.end();
    const over = () =>
      world.entries().filter((entry) => entry.key === key && ['answered', 'cancelled'].includes(entry.kind));
    if (server === 'pipe') await eventually(over, (entries) => entries.length > 0, 5_000);
    else await eventually(replies, (count) => count === before, 5_000);
  });

  test('modern: the server gets no retry after a cancelled question', async () => {
    const client = await LegacyClient.open(world.at('modern'), '2025-11-25', FORM);
    const { id } = client.start('tools/call', { name: 'ask', arguments: { key: 'cancelled' } });
    await eventually(
      () => client.heard,
      (heard) => heard.some(({ method }) => method === 'elicitation/create'),
    );
    await client.tell('notifications/cancelled', { requestId: id });
    await sleep(300);
    expect(modern.entries.filter(({ key }) => key === 'cancelled')).toHaveLength(1);
    await client.end();
  });
});

test('a legacy client that never answers: the call ends once, and the server gets a cancel', async () => {
  const brief = await startWorld({
    http: { legacy: {} },
    stdio: { pipe: {} },
    servers: { modern: { url: modern.url } },
    config: { bridge: { parkTtl: '1s' } },
  });
  for (const server of ['legacy', 'pipe', 'modern']) {
    const key = `silent-${server}`;
    const client = await LegacyClient.open(brief.at(server), '2025-11-25', FORM);
    const { exchange } = client.start('tools/call', { name: 'ask', arguments: { key } });
    const answers = (await exchange.ended).filter(({ method }) => method === undefined);
    expect(answers).toHaveLength(1);
    await eventually(
      () => client.heard,
      (heard) => heard.some(({ method }) => method === 'notifications/cancelled'),
    );
    if (server !== 'modern') {
      const told = () => brief.entries().filter((entry) => entry.kind === 'answered' && entry.key === key);
      await eventually(told, ({ length }) => length === 1);
      expect(told()).toMatchObject([{ result: { action: 'cancel' } }]);
      expect(runsOf(brief.entries(), key)).toBe(1);
    }
    await client.end();
  }
  await brief.close();
});
