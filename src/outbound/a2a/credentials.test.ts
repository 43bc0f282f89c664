/** Two callers with different credentials at one agent, over every binding. */
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import { afterEach, expect, it } from 'vitest';
import { tokenOfCaller } from '../../../test/support/callers.js';
import { card, exchange, json, Stage, saying, TASK } from '../../../test/support/remote-agents.js';
import { type Caller, GATEWAY, principalOf } from '../../core/caller.js';
import type { Credentials } from '../../identity/upstream-credentials.js';
import { serviceOf } from '../../protocol/a2a/proto/services.js';
import { ProtocolError } from '../../protocol/errors.js';

const stage = new Stage();
afterEach(() => stage.close());

const as = (subject: string): Caller => ({ ...GATEWAY, principal: principalOf({ subject }) });

/** One request as received by the agent: its credential and its connection. */
type Seen = readonly [authorization: string | undefined, connection: unknown];

/** An agent with one binding that records its requests. */
async function serve(
  binding: 'JSONRPC' | 'HTTP+JSON' | 'GRPC',
): Promise<{ url: string; calls: Seen[]; cards: Seen[] }> {
  const calls: Seen[] = [];
  const cards: Seen[] = [];
  const grpc = binding === 'GRPC' ? await grpcAgent(calls) : undefined;
  const server = await stage.server(({ path, headers, body }, response, { url }) => {
    const seen: Seen = [headers.authorization, response.req.socket];
    if (path.includes('/.well-known/')) {
      cards.push(seen);
      json(response, card([{ url: grpc ?? url, protocolBinding: binding }]));
      return;
    }
    calls.push(seen);
    const result = { task: TASK };
    json(response, binding === 'JSONRPC' ? { jsonrpc: '2.0', id: body['id'], result } : result);
  });
  return { url: server.url, calls, cards };
}

async function grpcAgent(calls: Seen[]): Promise<string> {
  const service = serviceOf('1.0');
  const method = service.methods.find(({ operation }) => operation === 'SendMessage')!;
  const asIs = (bytes: Buffer): Buffer => bytes;
  const server = new Server();
  server.addService(
    {
      send: {
        path: method.path,
        requestStream: false,
        responseStream: false,
        requestSerialize: asIs,
        requestDeserialize: asIs,
        responseSerialize: asIs,
        responseDeserialize: asIs,
      },
    },
    {
      send: (call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) => {
        calls.push([String(call.metadata.get('authorization')[0]), call.getPeer()]);
        done(null, service.codec.encode(method.response, { task: TASK }));
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  stage.later(() => server.forceShutdown());
  return `http://127.0.0.1:${port}`;
}

const BINDINGS = ['JSONRPC', 'HTTP+JSON', 'GRPC'] as const;
const CASES = BINDINGS.flatMap((binding) => [[binding, 'at once', false] as const, [binding, 'later', true] as const]);

it.each(CASES)('%s: the credentials of two callers, known %s, are never mixed', async (binding, _, later) => {
  const { url, calls, cards } = await serve(binding);
  const agent = stage.agent(url, {}, { allowPrivate: true, credentials: tokenOfCaller(later) });
  for (const subject of ['ada', 'bob', 'ada', 'bob'])
    expect(await agent.send(as(subject), saying('hi'), exchange())).toMatchObject({ value: { task: { id: TASK.id } } });
  expect(calls.map(([authorization]) => authorization)).toEqual([
    'Bearer ada',
    'Bearer bob',
    'Bearer ada',
    'Bearer bob',
  ]);
  const connections = new Map(calls.map(([authorization, connection]) => [connection, authorization]));
  for (const [authorization, connection] of calls) expect(connections.get(connection)).toBe(authorization);
  expect(new Set(cards.map(([authorization]) => authorization))).toEqual(new Set(['Bearer parley']));
});

it.each([
  [
    'an error of its own',
    new ProtocolError('upstream_unauthorized', 'Link your account first'),
    'Link your account first',
  ],
  ['any other error', new Error('connect ECONNREFUSED 10.0.0.1'), 'no credential could be obtained'],
])('a caller without a credential gets an error: %s', async (_, error, words) => {
  const { url, calls } = await serve('JSONRPC');
  const credentials: Credentials = {
    for: ({ principal }, { configured }) => {
      if (principal.key === 'ada') throw error;
      return configured;
    },
  };
  const agent = stage.agent(url, {}, { allowPrivate: true, credentials });
  const refused = agent.send(as('ada'), saying('hi'), exchange());
  await expect(refused).rejects.toMatchObject({ reason: 'upstream_unauthorized' });
  await expect(refused).rejects.toThrow(words);
  expect(calls).toEqual([]);
});
