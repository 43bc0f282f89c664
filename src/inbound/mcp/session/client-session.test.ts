import { expect, test, vi } from 'vitest';
import { LOCAL } from '../../../core/caller.js';
import type { CallState } from '../../../core/era-bridge/call-state.js';
import { ALL_SERVERS, type Call, complete, type Gateway, type Outcome } from '../../../core/gateway.js';
import {
  type RpcNotification,
  type RpcRequest,
  type RpcResponse,
  readIncoming,
} from '../../../protocol/jsonrpc/message.js';
import { type JsonObject, RawObject } from '../../../protocol/jsonrpc/raw.js';
import { NEWEST_LEGACY } from '../../../protocol/mcp/revisions/index.js';
import { ClientSession, type SessionSetup } from './client-session.js';

const read = (message: JsonObject) =>
  readIncoming(Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message })), { depth: 8 });

test('the state of a call with questions is not sealed inside the process', async () => {
  const state: CallState = { kind: 'parked', server: 's', ticket: { id: 'i', round: 1, owner: 'o' } };
  const question = { method: 'elicitation/create', params: { mode: 'form', message: 'Which?' } } as const;
  const outcomes: Outcome[] = [
    { kind: 'input_required', inputRequests: { q: question }, state },
    complete(RawObject.from({ content: [] })),
  ];
  const calls: Call[] = [];
  const gateway: Pick<Gateway, 'call'> = {
    call: (_, call) => {
      calls.push(call);
      return Promise.resolve(outcomes.shift()!);
    },
  };
  const session = new ClientSession({
    key: 'k',
    principal: LOCAL,
    view: ALL_SERVERS,
    revision: NEWEST_LEGACY,
    capabilities: { elicitation: { form: {} } },
    gateway,
    info: { name: 'parley', version: '1' },
    questionPrefix: '',
    answerTime: 60_000,
    reachable: true,
    unsolicited: () => {},
  } as unknown as SessionSetup);
  let finished = '';
  await session.handle(
    LOCAL,
    read({ id: 1, method: 'tools/call', params: { name: 't', requestState: 'made up' } }) as RpcRequest,
    {
      send: (text) => {
        const { id } = JSON.parse(text.toString()) as { id: string };
        const answer = read({ id, result: { action: 'accept', content: { which: 'this' } } }) as RpcResponse;
        void session.handle(LOCAL, answer, { send: () => {}, finish: () => {} });
      },
      finish: (parts) => {
        finished = Buffer.concat(parts).toString();
      },
    },
  );
  expect(JSON.parse(finished)).toMatchObject({ id: 1, result: { content: [] } });
  expect(calls.map((call) => call.state)).toEqual([undefined, state]);
  expect(calls[1]!.params.get('inputResponses')).toEqual({ q: { action: 'accept', content: { which: 'this' } } });
});

test('many reports of changed roots reach the servers as one per second', async () => {
  let told = 0;
  const session = new ClientSession({
    key: 'k',
    principal: LOCAL,
    view: ALL_SERVERS,
    revision: NEWEST_LEGACY,
    capabilities: { roots: { listChanged: true } },
    info: { name: 'parley', version: '1' },
    rootsChanged: () => told++,
  } as unknown as SessionSetup);
  vi.useFakeTimers();
  const report = read({ method: 'notifications/roots/list_changed' }) as RpcNotification;
  for (let i = 0; i < 1_000; i++) await session.handle(LOCAL, report, { send: () => {}, finish: () => {} });
  expect(told).toBe(1);
  vi.advanceTimersByTime(5_000);
  vi.useRealTimers();
  expect(told).toBe(2);
  session.close('done');
});

test.each([
  ['cancellations', { method: 'notifications/cancelled', params: { requestId: 'nobody' } }],
  ['answers', { id: 'nobody', result: {} }],
])('%s of requests that no replica knows do not flood the other replicas', async (_, message) => {
  let passed = 0;
  // The clock is replaced before the session is created, because the limit of the session reads the clock.
  vi.useFakeTimers();
  const session = new ClientSession({
    key: 'k',
    principal: LOCAL,
    view: ALL_SERVERS,
    revision: NEWEST_LEGACY,
    capabilities: {},
    info: { name: 'parley', version: '1' },
    questionPrefix: '',
    answerTime: 60_000,
    elsewhere: async () => void passed++,
  } as unknown as SessionSetup);
  try {
    const channel = { send: () => {}, finish: () => {} };
    const flood = async (): Promise<void> => {
      for (let i = 0; i < 1_000; i++) await session.handle(LOCAL, read(message) as RpcNotification, channel);
    };
    await flood();
    expect(passed).toBe(100);
    vi.advanceTimersByTime(1_000);
    await flood();
    expect(passed).toBe(120);
  } finally {
    vi.useRealTimers();
  }
});
