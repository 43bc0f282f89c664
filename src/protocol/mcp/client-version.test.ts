import { describe, expect, it } from 'vitest';
import { ProtocolError } from '../errors.js';
import { type RpcRequest, readIncoming } from '../jsonrpc/message.js';
import { classify } from './client-version.js';
import { META } from './model.js';

const request = (method: string, params: object = {}): RpcRequest =>
  readIncoming(Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 7, method, params })), { depth: 64 }) as RpcRequest;

const meta = (more: object = {}): object => ({
  _meta: { [META.protocolVersion]: '2026-07-28', [META.clientCapabilities]: {}, ...more },
});

const headers =
  (values: Record<string, string>) =>
  (name: string): string | undefined =>
    values[name];

const modernHeaders = (method: string, more: Record<string, string> = {}) =>
  headers({ 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...more });

function refusal(run: () => unknown): { reason: string; id: unknown; data: unknown } {
  try {
    run();
  } catch (error) {
    if (error instanceof ProtocolError) return { reason: error.reason, id: error.detail.id, data: error.detail.data };
  }
  throw new Error('the request was not refused');
}

describe('classify', () => {
  it('the body decides: metadata makes a request modern, even initialize', () => {
    for (const method of ['tools/list', 'initialize']) {
      expect(classify(request(method, meta()), modernHeaders(method)).kind).toBe('modern');
    }
  });

  it('initialize without metadata is a handshake, other requests belong to a session', () => {
    expect(classify(request('initialize'), headers({})).kind).toBe('initialize');
    expect(classify(request('tools/list'), headers({ 'mcp-protocol-version': '2025-06-18' })).kind).toBe('session');
    expect(classify(request('tools/list')).kind).toBe('session');
  });

  it('META-03: names the missing keys if the header is modern and the body is not', () => {
    const { reason, id, data } = refusal(() => classify(request('tools/list'), modernHeaders('tools/list')));
    expect([reason, id]).toEqual(['invalid_envelope', 7]);
    expect(data).toEqual({ missing: [META.protocolVersion, META.clientCapabilities] });
  });

  it('META-03: refuses missing or invalid capabilities', () => {
    const bad = request('tools/list', { _meta: { [META.protocolVersion]: '2026-07-28' } });
    expect(refusal(() => classify(bad, modernHeaders('tools/list'))).reason).toBe('invalid_envelope');
  });

  it.each([
    ['no version header', { 'mcp-method': 'tools/list' }],
    ['another version', { 'mcp-protocol-version': '2025-11-25', 'mcp-method': 'tools/list' }],
    ['no method header', { 'mcp-protocol-version': '2026-07-28' }],
    ['another method', { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'TOOLS/LIST' }],
  ])('HDR-05: refuses %s', (_, values) => {
    expect(refusal(() => classify(request('tools/list', meta()), headers(values))).reason).toBe('header_mismatch');
  });

  it('HDR-05: compares names after decoding them', () => {
    const call = request('tools/call', { name: 'grüße', ...meta() });
    const encoded = `=?base64?${Buffer.from('grüße').toString('base64')}?=`;
    expect(classify(call, modernHeaders('tools/call', { 'mcp-name': encoded })).kind).toBe('modern');
    const wrong = modernHeaders('tools/call', { 'mcp-name': 'other' });
    expect(refusal(() => classify(call, wrong)).reason).toBe('header_mismatch');
  });

  it('VER-01: refuses an unsupported version and lists the supported ones', () => {
    const future = request('tools/list', meta({ [META.protocolVersion]: '2031-01-01' }));
    const sent = headers({ 'mcp-protocol-version': '2031-01-01', 'mcp-method': 'tools/list' });
    const { reason, data } = refusal(() => classify(future, sent));
    expect(reason).toBe('unsupported_version');
    expect(data).toEqual({ supported: ['2026-07-28'], requested: '2031-01-01' });
  });

  it('LOG-04: refuses an unknown log level', () => {
    expect(refusal(() => classify(request('tools/list', meta({ [META.logLevel]: 'loud' })))).reason).toBe(
      'invalid_params',
    );
  });
});
