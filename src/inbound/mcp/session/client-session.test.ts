import { expect, test } from 'vitest';
import { LOCAL } from '../../../core/caller.js';
import type { CallState } from '../../../core/era-bridge/call-state.js';
import { ALL_SERVERS, type Call, complete, type Gateway, type Outcome } from '../../../core/gateway.js';
import { type RpcRequest, type RpcResponse, readIncoming } from '../../../protocol/jsonrpc/message.js';
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
