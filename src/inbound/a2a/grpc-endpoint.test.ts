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
  const handle = async () => {
    begin();
    return { kind: 'stream', events };
  };
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
  return { client, begun, left: () => left };
}

const MESSAGE = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] };

test.each([
  ['SendStreamingMessage', { message: MESSAGE }],
  ['SubscribeToTask', { id: 'task' }],
])('S17: revoking a key ends the gRPC streams that were opened with it: %s', async (operation, request) => {
  let revoked = false;
  const known = principalOf({ subject: 'ci', credential: { kind: 'key', id: 'one' } });
  const { client, begun, left } = await silentAgent({
    enabled: true,
    authenticate: () => (revoked ? new Challenge('Unauthorized: The API key is not valid') : known),
  });
  const { codec, methods } = SERVICE_1_0;
  const method = methods.find((each) => each.operation === operation)!;
  const bytes = codec.encode(method.request, request);
  const stream = client.makeServerStreamRequest(method.path, asIs, asIs, bytes, new Metadata());
  const ended = new Promise<unknown>((resolve) => stream.on('error', resolve));
  stream.resume();
  await Promise.race([begun, ended.then((error) => Promise.reject(error))]);
  revoked = true;
  expect(await ended).toMatchObject({ code: 16 });
  expect(left()).toBeGreaterThan(0);
});
