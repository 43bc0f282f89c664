import * as sdk from '@a2a-js/sdk';
import { LegacyA2AService } from '@a2a-js/sdk/compat/v0_3/server/grpc';
import { A2AService } from '@a2a-js/sdk/server/grpc';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject, JsonValue } from '../../jsonrpc/raw.js';
import { ProtoSyntaxError } from './binary-format.js';
import { unknownTypes } from './message-codec.js';
import { V0_3, V1 } from './schemas.js';
import { SERVICE_0_3, SERVICE_1_0 } from './services.js';

const v1 = SERVICE_1_0.codec;
const v03 = SERVICE_0_3.codec;

const MESSAGE: JsonObject = {
  messageId: 'm1',
  contextId: 'c1',
  taskId: 't1',
  role: 'ROLE_AGENT',
  parts: [
    { text: '' },
    { raw: 'AAEC/w==', filename: 'a.bin', mediaType: 'application/octet-stream' },
    { url: 'https://x.example/ü' },
    { data: { deep: [1.5, -3, null, true, 'x', {}, []] }, metadata: { k: 'v' } },
  ],
  metadata: { n: 12_345_678_901 },
  extensions: ['https://x.example/ext'],
  referenceTaskIds: ['t0'],
};
const TASK: JsonObject = {
  id: 't1',
  contextId: 'c1',
  status: { state: 'TASK_STATE_CANCELED', message: MESSAGE, timestamp: '2026-11-15T10:00:00.125Z' },
  artifacts: [{ artifactId: 'a1', name: 'n', description: 'd', parts: [{ text: 'x' }], extensions: ['e'] }],
  history: [MESSAGE],
  metadata: { a: 1 },
};
const CARD: JsonObject = {
  name: 'n',
  description: 'd',
  supportedInterfaces: [{ url: 'x:1', protocolBinding: 'GRPC', protocolVersion: '1.0', tenant: 'q' }],
  provider: { url: 'https://x.example', organization: 'o' },
  version: '1',
  documentationUrl: 'https://x.example/docs',
  capabilities: { streaming: true, pushNotifications: false, extensions: [{ uri: 'u', params: { a: [] } }] },
  securitySchemes: {
    key: { apiKeySecurityScheme: { location: 'header', name: 'X-Key' } },
    oauth: {
      oauth2SecurityScheme: {
        flows: { authorizationCode: { authorizationUrl: 'a', tokenUrl: 't', scopes: { s: 'S' }, pkceRequired: true } },
      },
    },
  },
  securityRequirements: [{ schemes: { key: {}, oauth: { list: ['s'] } } }],
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [{ id: 's', name: 's', description: 's', tags: ['t'], examples: ['e'] }],
  signatures: [{ protected: 'p', signature: 's', header: { kid: 'k' } }],
  iconUrl: 'https://x.example/icon',
};

interface Json {
  fromJSON(value: unknown): unknown;
  toJSON(value: never): unknown;
}
interface Method {
  requestSerialize(value: never): Buffer;
  requestDeserialize(bytes: Buffer): never;
  responseSerialize(value: never): Buffer;
  responseDeserialize(bytes: Buffer): never;
}
const methods = A2AService as unknown as Record<string, Method>;

describe('S-73 the 1.0 proto, compared with the official one', () => {
  test.each<[string, JsonObject, Json, string, 'request' | 'response']>([
    ['Task', TASK, sdk.Task, 'getTask', 'response'],
    ['AgentCard', CARD, sdk.AgentCard, 'getExtendedAgentCard', 'response'],
    [
      'SendMessageRequest',
      {
        tenant: 'q',
        message: MESSAGE,
        configuration: {
          acceptedOutputModes: ['text/plain'],
          historyLength: 0,
          returnImmediately: true,
          taskPushNotificationConfig: { id: 'p', url: 'https://x.example', authentication: { scheme: 'Bearer' } },
        },
        metadata: { a: null },
      },
      sdk.SendMessageRequest,
      'sendMessage',
      'request',
    ],
    [
      'ListTasksRequest',
      { contextId: 'c', status: 'TASK_STATE_WORKING', pageSize: 10, statusTimestampAfter: '2026-01-01T00:00:00.000Z' },
      sdk.ListTasksRequest,
      'listTasks',
      'request',
    ],
    [
      'ListTaskPushNotificationConfigsRequest',
      { taskId: 't', pageSize: 3, pageToken: 'x', tenant: 'q' },
      sdk.ListTaskPushNotificationConfigsRequest,
      'listTaskPushNotificationConfigs',
      'request',
    ],
  ])('%s', (name, value, official, method, side) => {
    const theirs = methods[method]![`${side}Serialize`](official.fromJSON(value) as never);
    expect(v1.decode(name, theirs)).toMatchObject(value);
    const ours = methods[method]![`${side}Deserialize`](v1.encode(name, value));
    expect(official.toJSON(ours)).toEqual(official.toJSON(official.fromJSON(value) as never));
  });
});

describe('S-73 the 0.3 proto, compared with the official one', () => {
  const legacy = LegacyA2AService as unknown as Record<string, Method>;
  const event: JsonObject = {
    artifactUpdate: {
      taskId: 't',
      contextId: 'c',
      artifact: { artifactId: 'a', name: 'n', parts: [{ text: 'x' }, { file: { fileWithUri: 'u', mimeType: 'm' } }] },
      append: true,
      lastChunk: true,
    },
  };

  test('an artifact keeps its append and lastChunk flags', () => {
    const read = legacy['sendStreamingMessage']!.responseDeserialize(v03.encode('StreamResponse', event));
    const theirs = legacy['sendStreamingMessage']!.responseSerialize(read);
    expect(v03.decode('StreamResponse', theirs)).toEqual(event);
  });

  test('a request', () => {
    const request: JsonObject = {
      message: { messageId: 'm', role: 'ROLE_USER', content: [{ data: { data: { a: 1 } } }, { text: 'x' }] },
      configuration: { acceptedOutputModes: ['a'], historyLength: 3, blocking: true },
    };
    const read = legacy['sendMessage']!.requestDeserialize(v03.encode('SendMessageRequest', request));
    expect(v03.decode('SendMessageRequest', legacy['sendMessage']!.requestSerialize(read))).toEqual(request);
  });
});

test('the tables define every type they use', () => {
  expect(unknownTypes(V1)).toEqual([]);
  expect(unknownTypes(V0_3)).toEqual([]);
});

test('any JSON value survives as data', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (data) => {
      const value = data as JsonValue;
      const survived = v1.decode('Part', v1.encode('Part', { data: value })) as JsonValue;
      expect(normal(survived)).toEqual({ data: normal(value) });
    }),
  );
});

/** JSON does not distinguish -0 from 0, and an object has each key once. */
const normal = (value: JsonValue): JsonValue => JSON.parse(JSON.stringify(value)) as JsonValue;

test('any bytes are read or refused with a ProtoSyntaxError', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      try {
        v1.decode('StreamResponse', Buffer.from(bytes));
      } catch (error) {
        expect(error).toBeInstanceOf(ProtoSyntaxError);
      }
    }),
    { numRuns: 2_000 },
  );
});

test('__proto__ is an ordinary key', () => {
  const card = v1.decode('AgentCard', v1.encode('AgentCard', JSON.parse('{"securitySchemes":{"__proto__":{}}}')));
  expect(JSON.stringify(card)).toBe('{"securitySchemes":{"__proto__":{}}}');
});

test('ignores fields of a later version', () => {
  const later = Buffer.concat([v1.encode('GetTaskRequest', { id: 't' }), Buffer.from([0xa2, 0x06, 0x01, 0x41])]);
  expect(v1.decode('GetTaskRequest', later)).toEqual({ id: 't' });
});
