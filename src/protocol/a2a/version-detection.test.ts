import { describe, expect, it } from 'vitest';
import { cardDialect, interfacesOf, readVersion, restDialect, rpcDialect } from './index.js';

describe('versions', () => {
  it.each([
    [undefined, undefined],
    ['', '0.3'],
    ['1.0', '1.0'],
    ['1.0.1', '1.0'],
    ['v1.0', '1.0'],
    ['0.3.0', '0.3'],
    ['0.2.6', '0.2'],
    ['0.1', '0.1'],
    ['1.1', 'unsupported'],
    ['2', 'unsupported'],
    ['latest', 'unsupported'],
  ])('S-10 S-11 S-12: %j is %j', (named, version) => {
    expect(readVersion(named)).toBe(version);
  });
});

describe('JSON-RPC methods', () => {
  it.each([
    ['SendMessage', undefined, 'SendMessage', '1.0', true],
    ['ListTasks', undefined, 'ListTasks', '1.0', true],
    ['message/send', undefined, 'SendMessage', '0.3', true],
    ['message/send', '0.2', 'SendMessage', '0.2', true],
    ['message/send', '1.0', 'SendMessage', '0.3', true],
    ['message/stream', undefined, 'SendStreamingMessage', '0.3', true],
    ['tasks/send', undefined, 'SendMessage', '0.1', true],
    ['tasks/sendSubscribe', '1.0', 'SendStreamingMessage', '0.1', true],
    ['tasks/list', undefined, 'ListTasks', '0.3', true],
    ['tasks/get', undefined, 'GetTask', '0.3', false],
    ['tasks/get', '0.1', 'GetTask', '0.1', true],
    ['tasks/cancel', undefined, 'CancelTask', '0.3', false],
    ['tasks/resubscribe', undefined, 'SubscribeToTask', '0.3', false],
    ['tasks/resubscribe', '0.3', 'SubscribeToTask', '0.3', true],
    ['tasks/subscribe', undefined, 'SubscribeToTask', '0.1', false],
    ['tasks/pushNotificationConfig/set', undefined, 'CreateTaskPushNotificationConfig', '0.3', true],
    ['tasks/pushNotification/get', undefined, 'GetTaskPushNotificationConfig', '0.1', true],
    ['agent/getAuthenticatedExtendedCard', undefined, 'GetExtendedAgentCard', '0.3', true],
  ] as const)('C-24: the method %s with the version %s', (method, named, operation, dialect, certain) => {
    expect(rpcDialect(method, named)).toEqual({ operation, dialect, certain });
  });

  it('C-24: unknown methods have no operation', () => {
    expect(rpcDialect('tools/call', undefined)).toBeUndefined();
    expect(rpcDialect('constructor', undefined)).toBeUndefined();
  });
});

describe('REST', () => {
  const proto = { message: { messageId: 'm', role: 'ROLE_USER', content: [{ text: 'x' }] } };
  const schema = { message: { kind: 'message', messageId: 'm', role: 'user', parts: [{ kind: 'text', text: 'x' }] } };
  it.each([
    [false, undefined, undefined, '1.0'],
    [false, '1.0', proto, '1.0'],
    [false, '0.3', schema, '0.3'],
    [true, undefined, undefined, '0.3-proto'],
    [true, undefined, proto, '0.3-proto'],
    [true, undefined, schema, '0.3'],
    [true, '1.0', schema, '0.3'],
    [true, '0.2', schema, '0.2'],
    [true, '0.2', proto, '0.3-proto'],
    [true, undefined, { request: proto.message }, '0.3-proto'],
    [true, undefined, { config: { pushNotificationConfig: { url: 'u' } } }, '0.3-proto'],
    [true, undefined, { name: 'tasks/t', pushNotificationConfig: { url: 'u' } }, '0.3-proto'],
    [true, undefined, { taskId: 't', pushNotificationConfig: { url: 'u' } }, '0.3'],
  ] as const)('prefix /v1: %s, version %s, body %j: dialect %s', (v1, named, body, id) => {
    expect(restDialect(v1, named, body && JSON.parse(JSON.stringify(body)))).toBe(id);
  });
});

describe('cards', () => {
  it.each([
    [{ supportedInterfaces: [] }, '1.0'],
    [{ protocolVersion: '0.3.0', url: 'u' }, '0.3'],
    [{ protocolVersion: '0.2.5', url: 'u' }, '0.2'],
    [{ url: 'u' }, '0.2'],
    [{ url: 'u', authentication: { schemes: ['Bearer'] } }, '0.1'],
    [{ url: 'u', authentication: { schemes: [] }, securitySchemes: {} }, '0.2'],
  ])('C-3: %j has dialect %s', (card, id) => {
    expect(cardDialect(card)).toBe(id);
  });

  it('C-2 C-16: offers the supported interfaces in the order of the card, from both halves of a hybrid card', () => {
    const interfaces = interfacesOf({
      url: 'https://a.example/old',
      protocolVersion: '0.3.0',
      additionalInterfaces: [
        { url: 'https://a.example/old', transport: 'JSONRPC' },
        { url: 'https://a.example/rest', transport: 'HTTP+JSON' },
      ],
      supportedInterfaces: [
        { url: 'a.example:443', protocolBinding: 'grpc', protocolVersion: '1.0.1', tenant: 'acme' },
        { url: 'https://a.example/x', protocolBinding: 'https://bindings.example/amqp', protocolVersion: '1.0' },
        { url: 'https://a.example/2', protocolBinding: 'JSONRPC', protocolVersion: '2.0' },
        { url: 'https://a.example/old', protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
        null,
      ],
    });
    expect(interfaces).toEqual([
      { url: 'a.example:443', binding: 'GRPC', version: '1.0', tenant: 'acme' },
      { url: 'https://a.example/old', binding: 'JSONRPC', version: '0.3', tenant: undefined },
      { url: 'https://a.example/rest', binding: 'HTTP+JSON', version: '0.3', tenant: undefined },
    ]);
  });
});
