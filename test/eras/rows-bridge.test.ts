/** The rows of the era bridge with questions to the client (mcp.md 4.13), one by one. */

import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startGateway } from '../support/gateway.js';
import { ACCEPT, eventually, failureOf, newTag, REFUSAL_TIME, textOf } from './cases.js';
import { capabilitiesOf, openTestbed, type Testbed } from './matrix.js';
import {
  connectClient,
  type EraClient,
  type Json,
  type Message,
  REVISIONS,
  type Revision,
  startServer,
} from './peers.js';
import { MODERN, modern, openSession, openStream, type Reply, send } from './raw.js';

const LEGACY = REVISIONS.slice(0, 4) as readonly Exclude<Revision, '2026-07-28'>[];
type Transport = 'http' | 'stdio' | 'sse';

let testbed: Testbed;
const open: EraClient[] = [];

beforeAll(async () => {
  testbed = await openTestbed([
    ['2025-06-18', 'sse'],
    ['2025-11-25', 'http'],
    ['2025-11-25', 'stdio'],
    ['2026-07-28', 'http'],
    ['2026-07-28', 'stdio'],
  ]);
});

afterAll(async () => {
  await Promise.all(open.map((client) => client.close().catch(() => {})));
  await testbed?.close();
});

const urlOf = (revision: Revision, transport: Transport = 'http'): string =>
  `${testbed.gateway.url}/mcp/${testbed.server(revision, transport).name}`;

async function connect(
  client: Revision,
  server: Revision,
  transport: Transport = 'http',
  options: Parameters<typeof connectClient>[2] = { capabilities: capabilitiesOf(client), answer: ACCEPT },
): Promise<EraClient> {
  const endpoint = await testbed.endpoint(testbed.server(server, transport), client === '2024-11-05' ? 'sse' : 'http');
  const connected = await connectClient(client, endpoint, options);
  open.push(connected);
  return connected;
}

const callOf = (id: string | number, name: string, args: Json): Json => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: args },
});

const FORM = { elicitation: { form: {} } };

interface Asked {
  readonly resultType: string;
  readonly inputRequests?: Readonly<Record<string, { readonly method: string; readonly params: Json }>>;
  readonly requestState: string;
}

const askedBy = ({ answer }: Reply): Asked => {
  expect(answer?.result?.['resultType']).toBe('input_required');
  return answer!.result as unknown as Asked;
};

/** Opens a session and a call whose stream is read while it arrives. */
async function openCall(url: string, call: Json, revision: string, capabilities: Json) {
  const session = await openSession(url, revision, capabilities);
  const stream = await openStream(url, {
    method: 'POST',
    headers: {
      ...session.headers,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify(call),
  });
  const question = await eventually('a question on the stream of the call', () =>
    stream.messages().find(({ method, id }) => method !== undefined && id !== undefined),
  );
  return { session, stream, question };
}

describe('legacy client, modern server', () => {
  test('BR-04 questions arrive on the stream of the call; the answers return with the exact state and a new id', async () => {
    const url = urlOf(MODERN);
    const tag = newTag();
    const { session, stream, question } = await openCall(url, callOf(5, 'ask_twice', { tag }), '2025-11-25', FORM);
    const answered = new Set<unknown>();
    const answer = async ({ id, params }: Message): Promise<void> => {
      answered.add(id);
      const reply = await send(
        url,
        { jsonrpc: '2.0', id, result: ACCEPT('elicitation/create', params!) },
        session.headers,
      );
      expect(reply.status).toBe(202);
    };
    await answer(question);
    await answer(
      await eventually('the second question', () =>
        stream.messages().find(({ method, id }) => method === 'elicitation/create' && !answered.has(id)),
      ),
    );
    const { result } = await eventually('the result', () => stream.messages().find(({ id }) => id === 5));
    expect(JSON.parse(textOf(result!))).toMatchObject([{ action: 'accept' }, { action: 'accept' }]);
    const rounds = testbed.server(MODERN, 'http').happened('round', tag);
    expect(rounds).toHaveLength(3);
    expect(new Set(rounds.map(({ id }) => id)).size).toBe(3);
    // The server decodes its state: it received its own state and only the answers of this round.
    expect(
      rounds.map(({ state }) => (state === null ? null : Buffer.from(String(state), 'base64url').toString())),
    ).toEqual([null, '{"answers":{}}', '{"answers":{"first":{"action":"accept","content":{"first":"the first"}}}}']);
    expect(rounds.map(({ answers }) => Object.keys((answers ?? {}) as Json))).toEqual([[], ['first'], ['second']]);
    stream.close();
  });

  test.each(LEGACY.map((revision) => [revision]))(
    'BR-05 %s: rounds with a state and no question are repeated by the gateway, with pauses and up to a limit',
    async (revision) => {
      const server = testbed.server(MODERN, 'http');
      const client = await connect(revision, MODERN);
      const before = server.happened('state only').length;
      expect(textOf(await client.call('wait_state', { tag: newTag() }))).toBe('after 2 rounds');
      expect(client.questions).toHaveLength(0);
      const times = server
        .happened('state only')
        .slice(before)
        .map(({ at }) => Number(at));
      expect(times).toHaveLength(2);
      expect(times[1]! - times[0]!).toBeGreaterThan(150);

      const said = await client.call('wait_forever', { tag: newTag() }).then(
        (result) => ({ refused: result['isError'] === true, text: textOf(result) }),
        (error: Error) => ({ refused: true, text: error.message }),
      );
      expect(said.refused).toBe(true);
      expect(said.text).toMatch(/more rounds of questions than one call may have/);
      expect(server.happened('state only').length - before).toBeLessThan(20);
    },
  );

  test('BR-06 an answer on another connection completes a call whose stream was lost', async () => {
    const url = urlOf(MODERN);
    const tag = newTag();
    const { session, stream, question } = await openCall(url, callOf('c', 'ask_form', { tag }), '2025-11-25', FORM);
    const { id: last } = stream.events.findLast((event) => event.id !== undefined)!;
    stream.close();
    await send(
      url,
      { jsonrpc: '2.0', id: question.id, result: { action: 'accept', content: { name: 'elsewhere' } } },
      { ...session.headers, connection: 'close' },
    );
    const resumed = await openStream(url, {
      headers: { ...session.headers, accept: 'text/event-stream', 'last-event-id': last! },
    });
    const { result } = await eventually('the result', () => resumed.messages().find(({ id }) => id === 'c'));
    expect(JSON.parse(textOf(result!))).toEqual({ action: 'accept', content: { name: 'elsewhere' } });
    resumed.close();
    expect(testbed.server(MODERN, 'http').happened('run', tag)).toHaveLength(1);
  });

  test.each(LEGACY.map((revision) => [revision]))(
    'BR-08 %s without the capability: refused in time, with the reason',
    async (revision) => {
      for (const transport of ['http', 'stdio'] as const) {
        const client = await connect(revision, MODERN, transport, {});
        for (const [tool, capability] of [
          ['ask_form', /elicitation/],
          ['ask_url', /elicitation/],
          ['ask_model', /sampling/],
          ['ask_roots', /roots/],
        ] as const) {
          const started = Date.now();
          const result = await client.call(tool, { tag: newTag() });
          expect(result['isError']).toBe(true);
          expect(textOf(result)).toMatch(capability);
          expect(Date.now() - started).toBeLessThan(REFUSAL_TIME);
        }
        // No prompt result can express a refusal, so it is an error.
        expect((await failureOf(client.request('prompts/get', { name: 'asking' }))).message).toMatch(/elicitation/);
      }
    },
  );
});

describe('modern client, legacy server', () => {
  const UPSTREAMS = [
    ['2025-11-25', 'http'],
    ['2025-11-25', 'stdio'],
    ['2025-06-18', 'sse'],
  ] as const;

  test.each(UPSTREAMS)(
    'BR-12 a question of a %s server over %s is input_required, and the retry resumes the same call',
    async (revision, transport) => {
      const url = urlOf(revision, transport);
      const server = testbed.server(revision, transport);
      const tag = newTag();
      const call = { name: 'ask_form', arguments: { tag } };
      const options = { capabilities: FORM };
      const asked = askedBy(await modern(url, 'tools/call', call, options));
      const [[key, question], ...others] = Object.entries(asked.inputRequests!) as [
        [string, { method: string; params: Json }],
      ];
      expect(others).toEqual([]);
      expect(question).toMatchObject({
        method: 'elicitation/create',
        params: {
          mode: 'form',
          message: expect.stringContaining(`Please fill in for ${tag}`),
          requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
        },
      });
      // If keys are missing, the client is asked again and the call still waits; unknown keys are ignored.
      const again = askedBy(
        await modern(
          url,
          'tools/call',
          { ...call, inputResponses: { other: { action: 'accept' } }, requestState: asked.requestState },
          options,
        ),
      );
      expect(Object.keys(again.inputRequests!)).toEqual([key]);
      const retry = {
        ...call,
        inputResponses: { [key]: { action: 'accept', content: { name: 'Ada' } } },
        requestState: again.requestState,
      };
      const [one, two] = await Promise.all([
        modern(url, 'tools/call', retry, { ...options, id: 'one' }),
        modern(url, 'tools/call', retry, { ...options, id: 'two' }),
      ]);
      // An identical duplicate joins the first request.
      for (const { answer } of [one, two])
        expect(JSON.parse(textOf(answer!.result!))).toEqual({ action: 'accept', content: { name: 'Ada' } });
      expect(server.happened('run', tag)).toHaveLength(1);
      expect(server.happened('answered', tag)).toHaveLength(1);
    },
  );

  test.each(UPSTREAMS)(
    'BR-14 a state that does not belong to the request is refused, and does not reach the %s server over %s',
    async (revision, transport) => {
      const tokens = ['ada', 'bob'].map((name) => ({ name, token: `token-of-${name}-0123456789-0123456789` }));
      const small = await openTestbed([[revision, transport]], { auth: { tokens } });
      try {
        const server = small.servers[0]!;
        const url = `${small.gateway.url}/mcp/${server.name}`;
        const as = (index: number) => ({
          capabilities: FORM,
          headers: { authorization: `Bearer ${tokens[index]!.token}` },
        });
        const tag = newTag();
        const call = { name: 'ask_form', arguments: { tag } };
        const { inputRequests, requestState } = askedBy(await modern(url, 'tools/call', call, as(0)));
        const [key] = Object.keys(inputRequests!);
        const inputResponses = { [key!]: { action: 'accept', content: { name: 'Ada' } } };
        const retry = { ...call, inputResponses, requestState };
        const middle = Math.floor(requestState.length / 2);
        const flipped = requestState[middle] === 'A' ? 'B' : 'A';
        const forged = requestState.slice(0, middle) + flipped + requestState.slice(middle + 1);
        for (const [params, who] of [
          [{ ...retry, requestState: forged }, 0],
          [{ ...retry, requestState: 'nonsense' }, 0],
          [retry, 1],
          [{ ...retry, arguments: { tag: 'another' } }, 0],
          [{ ...retry, name: 'ask_twice' }, 0],
        ] as const) {
          const { answer } = await modern(url, 'tools/call', params, as(who));
          expect(answer?.error?.['code']).toBe(-32602);
        }
        expect(server.happened('answered', tag)).toHaveLength(0);
        expect(server.happened('run')).toHaveLength(1);
        expect((await modern(url, 'tools/call', retry, as(0))).answer?.result?.['isError']).toBeUndefined();
        const other = { ...retry, inputResponses: { [key!]: { action: 'decline' } } };
        expect((await modern(url, 'tools/call', other, as(0))).answer?.error?.['code']).toBe(-32602);
        expect(server.happened('run')).toHaveLength(1);
        expect(server.happened('answered', tag)).toHaveLength(1);
      } finally {
        await small.close();
      }
    },
  );

  test.each(UPSTREAMS)(
    'BR-15 an unanswered question ends the call at a %s server over %s and is not asked again',
    async (revision, transport) => {
      const small = await openTestbed([[revision, transport]], { bridge: { parkTtl: '1s' } });
      try {
        const server = small.servers[0]!;
        const url = `${small.gateway.url}/mcp/${server.name}`;
        const tag = newTag();
        const call = { name: 'ask_then_work', arguments: { tag } };
        const { inputRequests, requestState } = askedBy(await modern(url, 'tools/call', call, { capabilities: FORM }));
        await eventually('the call ends', () => server.happened('aborted', tag).length === 1);
        await eventually('the question is answered', () => server.happened('answered', tag).length === 1);
        expect(server.happened('answered', tag)[0]).toMatchObject({ answer: { action: 'cancel' } });
        const [key] = Object.keys(inputRequests!);
        const late = await modern(
          url,
          'tools/call',
          { ...call, inputResponses: { [key!]: { action: 'accept', content: { name: 'late' } } }, requestState },
          { capabilities: FORM },
        );
        expect(late.answer?.error?.['code']).toBe(-32602);
        expect(server.happened('run', tag)).toHaveLength(1);
      } finally {
        await small.close();
      }
    },
  );

  test('BR-16 after the gateway with the parked call stopped: a typed error, and the tool does not run again', async () => {
    const data = await mkdtemp(join(tmpdir(), 'parley-eras-data-'));
    const server = await startServer('2025-06-18', 'sse');
    const settings = { servers: { up: server.settings } };
    const first = await startGateway(settings, { data });
    const tag = newTag();
    const call = { name: 'ask_form', arguments: { tag } };
    const { inputRequests, requestState } = askedBy(
      await modern(`${first.url}/mcp/up`, 'tools/call', call, { capabilities: FORM }),
    );
    first.process.kill('SIGKILL');
    await first.close();
    const second = await startGateway(settings, { data });
    try {
      const [key] = Object.keys(inputRequests!);
      const { answer } = await modern(
        `${second.url}/mcp/up`,
        'tools/call',
        { ...call, inputResponses: { [key!]: { action: 'accept', content: { name: 'Ada' } } }, requestState },
        { capabilities: FORM },
      );
      expect(answer?.error).toMatchObject({ data: { reason: expect.stringMatching(/./) } });
      expect(server.happened('run', tag)).toHaveLength(1);
    } finally {
      await second.close();
      await server.close();
      await rm(data, { recursive: true, force: true });
    }
  });
});

describe('modern client, modern server', () => {
  test.each(['http', 'stdio'] as const)(
    'BR-25 the state of a server over %s is sealed and bound; an absent state stays absent',
    async (transport) => {
      const url = urlOf(MODERN, transport);
      const server = testbed.server(MODERN, transport);
      const options = { capabilities: FORM };
      for (const [tool, inner] of [
        ['ask_form', null],
        ['ask_twice', '{"answers":{}}'],
      ] as const) {
        const tag = newTag();
        const call = { name: tool, arguments: { tag } };
        const { inputRequests, requestState } = askedBy(await modern(url, 'tools/call', call, options));
        expect(requestState).toBeTypeOf('string');
        if (inner !== null) expect(requestState).not.toContain(Buffer.from(inner).toString('base64url'));
        const [key] = Object.keys(inputRequests!);
        const inputResponses = { [key!]: { action: 'accept', content: { name: 'a', first: 'b' } } };
        const foreign = await modern(
          url,
          'tools/call',
          { ...call, arguments: { tag: 'x' }, inputResponses, requestState },
          options,
        );
        expect(foreign.answer?.error?.['code']).toBe(-32602);
        await modern(url, 'tools/call', { ...call, inputResponses, requestState }, options);
        const [, second] = server.happened('round', tag);
        expect(second?.['state'] === null ? null : Buffer.from(String(second?.['state']), 'base64url').toString()).toBe(
          inner,
        );
      }
    },
  );
});

describe('all cells', () => {
  test('BR-29 the caller’s token does not reach the server, and the server’s challenge does not reach the caller', async () => {
    const token = 'token-of-ada-0123456789-0123456789';
    const challenging = createServer((req, res) => {
      req.resume();
      res
        .writeHead(401, { 'www-authenticate': 'Bearer realm="upstream", resource_metadata="http://127.0.0.1:1/meta"' })
        .end();
    });
    await new Promise<void>((resolve) => challenging.listen(0, '127.0.0.1', resolve));
    const servers = await Promise.all([
      startServer('2025-11-25', 'http'),
      startServer(MODERN, 'http'),
      startServer('2024-11-05', 'sse'),
    ]);
    const gateway = await startGateway({
      auth: { tokens: [{ name: 'ada', token }] },
      servers: {
        ...Object.fromEntries(servers.map(({ name, settings }) => [name, settings])),
        closed: { url: `http://127.0.0.1:${(challenging.address() as AddressInfo).port}/mcp` },
      },
    });
    try {
      const headers = { authorization: `Bearer ${token}` };
      for (const { name } of servers) {
        const tag = newTag();
        const url = `${gateway.url}/mcp/${name}`;
        const { answer } = await modern(url, 'tools/call', { name: 'text', arguments: { tag } }, { headers });
        expect(textOf(answer!.result!)).toBe(`text ${tag}`);
        const session = await openSession(url, '2025-06-18', {}, headers);
        await send(url, callOf(1, 'text', { tag }), session.headers);
      }
      for (const server of servers) expect(server.happened('authorization')).toEqual([]);
      const refused = await modern(`${gateway.url}/mcp/closed`, 'tools/call', { name: 'text' }, { headers });
      expect(refused.status).not.toBe(401);
      expect(refused.headers.get('www-authenticate')).toBeNull();
      expect(JSON.stringify(refused.messages)).not.toMatch(/resource_metadata|127\.0\.0\.1/);
    } finally {
      await gateway.close();
      await Promise.all(servers.map((server) => server.close()));
      challenging.closeAllConnections();
      challenging.close();
    }
  });

  test('BR-30 roots, sampling, logging and HTTP+SSE can each be switched off', async () => {
    const small = await openTestbed(
      [
        ['2025-11-25', 'http'],
        [MODERN, 'http'],
      ],
      { bridge: { roots: false, sampling: false, logging: false }, mcp: { sse: false } },
    );
    try {
      for (const server of small.servers) {
        for (const revision of ['2025-11-25', MODERN] as const) {
          const client = await connectClient(revision, await small.endpoint(server, 'http'), {
            capabilities: capabilitiesOf(revision),
            answer: ACCEPT,
          });
          expect(client.serverCapabilities).not.toHaveProperty('logging');
          const { capabilities } = JSON.parse(textOf(await client.call('meta'))) as { capabilities: Json };
          expect(Object.keys(capabilities)).toEqual(['elicitation']);
          for (const tool of ['ask_roots', 'ask_model']) {
            const said = await client.call(tool, { tag: newTag() }).then(
              (result) => (result['isError'] === true ? textOf(result) : ''),
              (error: Error) => error.message,
            );
            expect(said).toMatch(/roots|sampling/i);
          }
          if (revision === MODERN) await client.setLevel('debug');
          await client.call('logs', { tag: newTag() });
          await delay(50);
          expect(client.notifications.filter(({ method }) => method === 'notifications/message')).toEqual([]);
          expect(client.questions).toEqual([]);
          await client.close();
        }
      }
      expect(
        (await fetch(`${small.gateway.url}/sse`, { headers: { accept: 'text/event-stream' } })).status,
      ).toBeGreaterThanOrEqual(400);
    } finally {
      await small.close();
    }
  });
});
