import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { afterEach, expect, test } from 'vitest';
import type { AgentGateway } from '../../core/a2a/gateway.js';
import { principalOf } from '../../core/caller.js';
import { type Authenticator, Challenge } from '../../identity/authenticator.js';
import { SERVICE_1_0 } from '../../protocol/a2a/proto/services.js';
import { GrpcEndpoint } from './grpc-endpoint.js';

const asIs = (bytes: Buffer): Buffer => bytes;
const closing: (() => unknown)[] = [];
afterEach(() => Promise.all(closing.splice(0).map((close) => close())));

/** An endpoint with this gateway behind it, and a client of it. */
async function served(authenticator: Authenticator, handle: AgentGateway['handle']) {
  const gateway = { handle } as unknown as AgentGateway;
  const endpoint = new GrpcEndpoint({
    ...{ gateway, authenticator, recheck: authenticator, profile: '1.0.1', limits: { body: 1_000_000 } },
    failed: () => {},
  });
  const { port } = await endpoint.listen('127.0.0.1', 0);
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  closing.push(
    () => client.close(),
    () => endpoint.close(Promise.resolve()),
  );
  return client;
}

/** An endpoint whose agent sends nothing and never ends a stream. */
async function silentAgent(authenticator: Authenticator) {
  let left = 0;
  let begin = (): void => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const events = {
    [Symbol.asyncIterator]: () => events,
    next: () => new Promise<never>(() => {}),
    return: async () => {
      left++;
      return { value: undefined, done: true as const };
    },
  };
  const client = await served(authenticator, async () => {
    begin();
    return { kind: 'stream', events };
  });
  return { client, begun, left: () => left };
}

/** An authenticator that accepts one key until `revoke` is called. */
function oneKey() {
  let revoked = false;
  const known = principalOf({ subject: 'ci', credential: { kind: 'key', id: 'one' } });
  const authenticator: Authenticator = {
    enabled: true,
    authenticate: () => (revoked ? new Challenge('Unauthorized: The API key is not valid') : known),
  };
  const revoke = (): void => {
    revoked = true;
  };
  return { authenticator, revoke };
}

const MESSAGE = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] };

test.each([
  ['SendStreamingMessage', { message: MESSAGE }],
  ['SubscribeToTask', { id: 'task' }],
])('S17: revoking a key ends the gRPC streams that were opened with it: %s', async (operation, request) => {
  const { authenticator, revoke } = oneKey();
  const { client, begun, left } = await silentAgent(authenticator);
  const { codec, methods } = SERVICE_1_0;
  const method = methods.find((each) => each.operation === operation)!;
  const bytes = codec.encode(method.request, request);
  const stream = client.makeServerStreamRequest(method.path, asIs, asIs, bytes, new Metadata());
  const ended = new Promise<unknown>((resolve) => stream.on('error', resolve));
  stream.resume();
  await Promise.race([begun, ended.then((error) => Promise.reject(error))]);
  revoke();
  expect(await ended).toMatchObject({ code: 16 });
  expect(left()).toBeGreaterThan(0);
});

test.each([
  ['SendMessage', { message: MESSAGE }, 'the credential is no longer valid'],
  // The agent continues an operation that changes state, and only the answer is withheld.
  ['CancelTask', { id: 'task' }, undefined],
])('S17: revoking a key ends the gRPC calls that were made with it: %s', async (operation, request, reason) => {
  const { authenticator, revoke } = oneKey();
  let cancelled: string | undefined;
  const client = await served(authenticator, (_, { exchange }) => {
    exchange.cancellation.onCancel(() => {
      cancelled = exchange.cancellation.reason;
    });
    revoke();
    return new Promise(() => {});
  });
  const { codec, methods } = SERVICE_1_0;
  const method = methods.find((each) => each.operation === operation)!;
  const bytes = codec.encode(method.request, request);
  const refusal = await new Promise((resolve) => {
    client.makeUnaryRequest(method.path, asIs, asIs, bytes, new Metadata(), (error) => resolve(error));
  });
  expect(refusal).toMatchObject({ code: 16, details: 'Unauthorized: the credential is no longer valid' });
  expect(cancelled).toBe(reason);
});
