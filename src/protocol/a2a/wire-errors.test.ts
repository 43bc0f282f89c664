import { describe, expect, it } from 'vitest';
import { ERRORS, ProtocolError, type Reason, UpstreamRpcError } from '../errors.js';
import { grpcError, readError, restError, writeRpcError } from './wire-errors.js';

const of = (reason: Reason) => new ProtocolError(reason, 'said');

/** §1.4: reason, name, JSON-RPC, HTTP 1.0.1 and 1.0.0, gRPC 1.0.1 and 1.0.0. */
const TABLE = [
  ['task_not_found', 'TASK_NOT_FOUND', -32001, 404, 404, 5, 5],
  ['task_not_cancelable', 'TASK_NOT_CANCELABLE', -32002, 400, 409, 9, 9],
  ['push_not_supported', 'PUSH_NOTIFICATION_NOT_SUPPORTED', -32003, 400, 400, 9, 12],
  ['unsupported_operation', 'UNSUPPORTED_OPERATION', -32004, 400, 400, 9, 12],
  ['content_type_not_supported', 'CONTENT_TYPE_NOT_SUPPORTED', -32005, 400, 415, 3, 3],
  ['invalid_agent_response', 'INVALID_AGENT_RESPONSE', -32006, 500, 502, 13, 13],
  ['extended_card_not_configured', 'EXTENDED_AGENT_CARD_NOT_CONFIGURED', -32007, 400, 400, 9, 9],
  ['extension_required', 'EXTENSION_SUPPORT_REQUIRED', -32008, 400, 400, 9, 9],
  ['unsupported_version', 'VERSION_NOT_SUPPORTED', -32009, 400, 400, 9, 12],
  ['parse_error', 'PARSE_ERROR', -32700, 400, 400, 3, 3],
  ['invalid_request', 'INVALID_REQUEST', -32600, 400, 400, 3, 3],
  ['method_not_found', 'METHOD_NOT_FOUND', -32601, 404, 404, 12, 12],
  ['invalid_params', 'INVALID_PARAMS', -32602, 400, 400, 3, 3],
  ['internal', 'INTERNAL', -32603, 500, 500, 13, 13],
  ['unauthorized', 'UNAUTHORIZED', -32603, 401, 401, 16, 16],
  ['forbidden', 'FORBIDDEN', -32603, 403, 403, 7, 7],
  ['upstream_unavailable', 'UPSTREAM_UNAVAILABLE', -32603, 503, 503, 14, 14],
] as const;

describe('errors of 1.0', () => {
  it.each(TABLE)(
    'S-70 S1-47: %s is %s in every binding and both profiles',
    (reason, name, code, rest, rest100, grpc, grpc100) => {
      const own = reason.startsWith('upstream') || ['internal', 'unauthorized', 'forbidden'].includes(reason);
      const info = {
        '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
        reason: name,
        domain: own ? 'parley.dev' : 'a2a-protocol.org',
        metadata: {},
      };
      expect(writeRpcError(of(reason), '1.0')).toEqual({ code, message: 'said', data: [info] });
      const modern = restError(of(reason), '1.0', '1.0.1');
      expect(modern.status).toBe(rest);
      expect(modern.body).toEqual({
        error: { code: rest, status: ERRORS[reason].grpc, message: 'said', details: [info] },
      });
      expect(restError(of(reason), '1.0', '1.0.0').status).toBe(rest100);
      expect(grpcError(of(reason), '1.0.1')).toEqual({ code: grpc, message: 'said', details: [info] });
      expect(grpcError(of(reason), '1.0.0').code).toBe(grpc100);
    },
  );

  it('G-29: further error data is text in ErrorInfo.metadata, and headers stay outside the body', () => {
    const error = new ProtocolError('upstream_unavailable', 'down', {
      outcome: 'not_executed',
      data: { agent: 'desk', attempts: 2 },
      headers: { 'Retry-After': '5' },
    });
    expect(writeRpcError(error, '1.0').data).toMatchObject([
      { metadata: { outcome: 'not_executed', agent: 'desk', attempts: '2' } },
    ]);
    expect(restError(error, '1.0', '1.0.1').headers).toEqual({ 'Retry-After': '5' });
  });

  it('does not expose the message of an unexpected error', () => {
    const { message, code } = writeRpcError(new Error('secret path'), '1.0');
    expect([message, code]).toEqual(['internal error', -32603]);
  });
});

describe('errors of older versions', () => {
  it('0.3 REST sends the bare error with the same statuses', () => {
    const { status, body } = restError(of('task_not_found'), '0.3-proto', '1.0.1');
    expect([status, body]).toEqual([404, { code: -32001, message: 'said', data: { reason: 'task_not_found' } }]);
  });

  it.each([
    ['invalid_agent_response', -32603],
    ['extended_card_not_configured', -32004],
    ['extension_required', -32004],
    ['unsupported_version', -32004],
    ['unauthorized', -32007],
    ['forbidden', -32008],
    ['rate_limited', -32010],
    ['upstream_unavailable', -32011],
    ['task_not_found', -32001],
  ] as const)('0.1 has its own codes: %s is %i', (reason, code) => {
    expect(writeRpcError(of(reason), '0.1').code).toBe(code);
  });
});

describe('C-9: reading errors by reason, then code, then status', () => {
  const info = (reason: string) => ({
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason,
    domain: 'a2a-protocol.org',
  });

  it.each([
    ['a JSON-RPC error', { code: -32001, message: 'no' }, undefined, 'task_not_found'],
    [
      'a reason that contradicts its code',
      { code: -32603, message: 'no', data: [info('TASK_NOT_CANCELABLE')] },
      undefined,
      'task_not_cancelable',
    ],
    [
      'a REST error of 1.0.1',
      { error: { code: 400, status: 'FAILED_PRECONDITION', message: 'no', details: [info('TASK_NOT_CANCELABLE')] } },
      400,
      'task_not_cancelable',
    ],
    [
      'a REST error of 1.0.0',
      { error: { code: 409, status: 'FAILED_PRECONDITION', message: 'no', details: [info('TASK_NOT_CANCELABLE')] } },
      409,
      'task_not_cancelable',
    ],
    [
      'problem+json',
      { type: 'https://a2a-protocol.org/errors/task-not-found', title: 'Task not found', status: 404 },
      404,
      'task_not_found',
    ],
    ['a bare error', { code: -32002, message: 'no' }, 400, 'task_not_cancelable'],
    ['FastAPI', { detail: 'Task not found' }, 404, 'task_not_found'],
    ['FastAPI validation', { detail: [{ loc: ['body'], msg: 'field required' }] }, 422, 'invalid_params'],
    ['a status without a body', '', 503, 'upstream_unavailable'],
    ['an HTML page from a proxy', '<html>', 502, 'upstream_unavailable'],
    ['401', { error: 'unauthorized' }, 401, 'upstream_unauthorized'],
    ['429', {}, 429, 'upstream_rate_limited'],
  ] as const)('%s', (_what, wire, status, reason) => {
    const error = readError(JSON.parse(JSON.stringify(wire)), '1.0', status);
    expect(error).toBeInstanceOf(ProtocolError);
    expect((error as ProtocolError).reason).toBe(reason);
  });

  it.each([
    [-32006, 'unsupported_operation', 'invalid_agent_response'],
    [-32007, 'upstream_unauthorized', 'extended_card_not_configured'],
    [-32009, 'unsupported_operation', 'unsupported_version'],
    [-32010, 'upstream_rate_limited', undefined],
    [-32011, 'upstream_unavailable', undefined],
  ] as const)('%i has a different meaning in 0.1 than in later versions', (code, first, later) => {
    expect(readError({ code, message: 'no' }, '0.1')).toMatchObject({ reason: first });
    const error = readError({ code, message: 'no' }, '0.3');
    if (later) expect(error).toMatchObject({ reason: later });
    else expect(error).toMatchObject({ name: 'UpstreamRpcError', code });
  });

  it('an agent-specific code keeps its code, message and data', () => {
    const error = readError({ code: -32050, message: 'busy', data: { wait: 3 } }, '0.3') as UpstreamRpcError;
    expect(error).toBeInstanceOf(UpstreamRpcError);
    expect(writeRpcError(error, '0.3')).toEqual({ code: -32050, message: 'busy', data: { wait: 3 } });
    expect(writeRpcError(error, '1.0')).toMatchObject({
      code: -32050,
      data: [{ reason: 'AGENT_ERROR' }, { value: { wait: 3 } }],
    });
  });

  it.each([[{ why: 'gone' }], ['gone'], [['a', 1]]])('data of 0.3 survives the round trip through 1.0: %j', (data) => {
    const first = readError({ code: -32001, message: 'no', data }, '0.3');
    const modern = writeRpcError(first, '1.0');
    expect(modern.data).toHaveLength(2);
    const back = readError({ ...modern }, '1.0');
    expect(back).toMatchObject({ reason: 'task_not_found' });
    expect(writeRpcError(back, '0.3')).toEqual({ code: -32001, message: 'no', data });
  });

  it('details of 1.0 reach a 1.0 client unchanged, and an older client as plain metadata', () => {
    const details = [
      { ...info('TASK_NOT_FOUND'), metadata: { taskId: 't' } },
      { '@type': 'x/y', more: 1 },
    ];
    const error = readError({ code: -32001, message: 'no', data: details }, '1.0');
    expect(writeRpcError(error, '1.0').data).toEqual(details);
    expect(writeRpcError(error, '0.3').data).toEqual({ taskId: 't' });
  });
});
