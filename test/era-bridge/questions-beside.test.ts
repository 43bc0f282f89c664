/** Streamable HTTP servers that ask on their GET stream while a call runs (BR-12, BR-17, BR-18). */
import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { answer, event, json, type Rogue, startRogue, stream } from '../input/support/rogue.js';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { answersTo, asked, LegacyClient, ModernClient, textOf } from './support/clients.js';
import { eventually } from './support/wire.js';

describe.each(['2025-03-26', '2025-06-18', '2025-11-25'])('a server of %s that asks on its GET stream', (revision) => {
  /** The open GET streams, by session. */
  const streams = new Map<string, ServerResponse>();
  let rogue: Rogue;
  let gateway: RunningGateway;
  let questions = 0;

  beforeAll(async () => {
    rogue = await startRogue(
      {
        ask: async ({ req, res, id, args }) => {
          const session = String(req.headers['mcp-session-id']);
          const question = `q${++questions}`;
          const beside = streams.get(session);
          // A message before the stream is open is lost, as with the official SDK.
          beside?.write(event({ jsonrpc: '2.0', id: question, ...questionOf(String(args['key'])) }));
          const said = await eventually(
            () => rogue.posted.find((message) => message.id === question),
            (found) => found !== undefined,
            60_000,
          );
          json(res, 200, answer(id, JSON.stringify(said!.result ?? said!.error), 'legacy'));
        },
      },
      revision,
    );
    rogue.onGet = (req, res) => {
      const session = String(req.headers['mcp-session-id']);
      streams.set(session, res);
      stream(res).write(': open\n\n');
    };
    gateway = await startGateway({
      servers: { beside: { url: rogue.url, revision: 'legacy', transport: 'http' } },
      timeouts: { call: '60s' },
    });
  });
  afterAll(async () => {
    await gateway?.close();
    await rogue?.close();
  });

  const questionOf = (key: string): object => ({
    method: 'sampling/createMessage',
    params: { messages: [{ role: 'user', content: { type: 'text', text: key } }], maxTokens: 10 },
  });
  const sampled = { role: 'assistant', content: { type: 'text', text: 'sampled' }, model: 'm' };

  test('a modern client is asked for the only running call, and its answer reaches the server', async () => {
    const client = new ModernClient(`${gateway.url}/mcp`, { sampling: {} });
    const first = await client.call('beside__ask', { key: 'one' });
    const [question] = Object.values(asked(first));
    expect(question).toMatchObject({ method: 'sampling/createMessage' });
    const ended = await client.call(
      'beside__ask',
      { key: 'one' },
      { requestState: first.result.requestState, inputResponses: answersTo(first, sampled) },
    );
    expect(JSON.parse(textOf(ended))).toMatchObject(sampled);
  });

  test('while several calls run, the server gets an error at once, because the question may belong to any of them', async () => {
    const client = new ModernClient(`${gateway.url}/mcp`, { sampling: {}, elicitation: { form: {} } });
    const answers = await Promise.all(['a', 'b', 'c'].map((key) => client.call('beside__ask', { key })));
    const refused = answers.filter(({ result }) => result?.content);
    // A call that runs alone for a moment may ask its client. The server gets an answer to every question.
    for (const reply of refused) expect(JSON.parse(textOf(reply))).toMatchObject({ code: -32602 });
    expect(refused.length).toBeGreaterThanOrEqual(2);
  });

  test('a legacy client with its own GET stream is asked there', async () => {
    const client = await LegacyClient.open(`${gateway.url}/mcp`, '2025-11-25', { sampling: {} });
    client.answer = () => sampled;
    expect(JSON.parse(textOf(await client.call('beside__ask', { key: 'legacy' })))).toMatchObject(sampled);
    await client.end();
  });
});
