import { describe, expect, it } from 'vitest';
import { ProtocolError, UpstreamRpcError } from '../../errors.js';
import { joined } from '../../jsonrpc/json-pieces.js';
import { type JsonObject, RawObject } from '../../jsonrpc/raw.js';
import { META } from '../model.js';
import { type NEWEST, revisionOf } from '../revisions/index.js';
import { decodeClientCapabilities, encodeClientCapabilities } from './capabilities.js';
import { encodeFailure } from './failures.js';
import { translateItem } from './list-items.js';
import { declares, decodeInputRequest, encodeInputRequest, requiredCapability } from './questions.js';
import { encodeResult } from './result.js';
import { experimentalTask, type TaskView } from './task.js';

const [A, B, C, D, E] = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'].map(
  (date) => revisionOf(date)!,
) as [typeof NEWEST, typeof NEWEST, typeof NEWEST, typeof NEWEST, typeof NEWEST];

const gateway = { name: 'parley', version: '1' };
const encoded = (method: string, result: JsonObject, to: typeof NEWEST): JsonObject =>
  JSON.parse(joined(encodeResult(method, RawObject.from(result), to, gateway)).toString());

describe('BR-10, BR-27: results in the client’s revision', () => {
  const modern = {
    content: [{ type: 'text', text: 'x' }],
    structuredContent: [1, 2],
    resultType: 'complete',
    _meta: { [META.serverInfo]: { name: 'up', version: '9' }, 'vendor/key': 1 },
  };

  it('have new metadata for a modern client and keep the server’s own keys', () => {
    expect(encoded('tools/call', modern, E)).toEqual({
      ...modern,
      _meta: { [META.serverInfo]: gateway, 'vendor/key': 1 },
    });
    expect(encoded('resources/read', { contents: [] }, E)).toMatchObject({
      resultType: 'complete',
      ttlMs: 0,
      cacheScope: 'private',
    });
  });

  it.each([A, B, C, D])('lose the modern envelope for $date', (revision) => {
    const seen = encoded('tools/call', modern, revision);
    expect(seen).toEqual({ content: modern.content, _meta: { 'vendor/key': 1 } });
  });

  it('keep object output for revisions that have it, and contain it as text for others', () => {
    const result = { content: [], structuredContent: { a: 1 } };
    expect(encoded('tools/call', result, C)).toEqual(result);
    expect(encoded('tools/call', result, B)).toEqual({ content: [{ type: 'text', text: '{"a":1}' }] });
  });

  it('show audio and links to an older client in a form it supports', () => {
    const result = {
      content: [
        { type: 'audio', data: 'AA==', mimeType: 'audio/wav' },
        { type: 'resource_link', uri: 'file:///x', name: 'x', description: 'a file' },
      ],
    };
    expect(encoded('tools/call', result, D)).toEqual(result);
    expect(encoded('tools/call', result, B)).toEqual({
      content: [result.content[0], { type: 'text', text: 'x <file:///x>: a file' }],
    });
    expect(encoded('tools/call', result, A)).toMatchObject({
      content: [{ type: 'resource', resource: { blob: 'AA==', mimeType: 'audio/wav' } }, { type: 'text' }],
    });
  });

  it('lose exactly the members an older revision lacks', () => {
    const link = { type: 'resource_link', uri: 'file:///x', name: 'x', title: 'X', icons: [{ src: 'x.png' }] };
    const dated = {
      type: 'text',
      text: 'x',
      annotations: { priority: 1, lastModified: '2026-01-01' },
      _meta: { a: 1 },
    };
    const { icons: _, ...plain } = link;
    expect(encoded('tools/call', { content: [link, dated] }, D)).toEqual({ content: [link, dated] });
    expect(encoded('tools/call', { content: [link] }, C)).toEqual({ content: [plain] });
    expect(encoded('tools/call', { content: [dated] }, C)).toEqual({ content: [dated] });
    expect(encoded('tools/call', { content: [dated] }, B)).toEqual({
      content: [{ type: 'text', text: 'x', annotations: { priority: 1 } }],
    });
  });

  it('pass as the same bytes if nothing has to change', () => {
    const raw = RawObject.at(Buffer.from('{ "content" : [ ], "big": 12345678901234567890}'));
    expect(joined(encodeResult('tools/call', raw, D, gateway)).toString()).toBe(raw.bytes().toString());
  });
});

describe('S0-32, S1-10: items of lists', () => {
  const tool = {
    name: 't',
    title: 'T',
    icons: [],
    annotations: { readOnlyHint: true },
    execution: { taskSupport: 'optional' },
    inputSchema: { type: 'object', $defs: {} },
    outputSchema: { type: 'array' },
    _meta: { a: 1 },
    vendor: 1,
  };

  it.each([
    [A, ['name', 'inputSchema', 'vendor']],
    [B, ['name', 'annotations', 'inputSchema', 'vendor']],
    [C, ['name', 'title', 'annotations', 'inputSchema', '_meta', 'vendor']],
    [D, ['name', 'title', 'icons', 'annotations', 'execution', 'inputSchema', '_meta', 'vendor']],
    [E, ['name', 'title', 'icons', 'annotations', 'inputSchema', 'outputSchema', '_meta', 'vendor']],
  ] as const)('have the members that $date supports', (revision, keys) => {
    expect(Object.keys(translateItem('tools/list', tool, revision.expresses)).sort()).toEqual([...keys].sort());
  });

  it.each([
    ['tools/list', { name: 'x', inputSchema: { type: 'object' } }],
    ['resources/list', { uri: 'x:y', name: 'x' }],
    ['resources/templates/list', { uriTemplate: 'x:{y}', name: 'x' }],
    ['prompts/list', { name: 'x' }],
  ] as const)(
    'of %s keep their icons where the revision has them, and get no member that they lack',
    (method, item) => {
      const icons = [{ src: 'https://example.com/x.png', sizes: ['48x48'] }];
      for (const { expresses, date } of [A, B, C, D, E]) {
        const kept = date >= D.date ? { ...item, icons } : item;
        expect([date, translateItem(method, { ...item, icons }, expresses)]).toEqual([date, kept]);
        expect([date, translateItem(method, item, expresses)]).toEqual([date, item]);
      }
    },
  );
});

describe('capabilities', () => {
  it('of a client are read in its own revision', () => {
    expect(decodeClientCapabilities({ elicitation: {}, tasks: {}, sampling: { tools: {} } }, C)).toEqual({
      elicitation: { form: {} },
      sampling: {},
    });
    expect(decodeClientCapabilities({ elicitation: { url: {} } }, D)).toEqual({ elicitation: { url: {} } });
    expect(decodeClientCapabilities({ elicitation: {} }, B)).toEqual({});
  });

  it('are declared to a server in the server’s revision', () => {
    const all = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: { listChanged: true } };
    expect(encodeClientCapabilities(all, D)).toEqual(all);
    expect(encodeClientCapabilities(all, C)).toEqual({ elicitation: {}, sampling: {}, roots: { listChanged: true } });
    expect(encodeClientCapabilities(all, B)).toEqual({ sampling: {}, roots: { listChanged: true } });
    expect(encodeClientCapabilities({ elicitation: {} }, D)).toEqual({ elicitation: { form: {} } });
    expect(encodeClientCapabilities(all, E)).toEqual({ ...all, roots: {} });
  });

  it('an empty elicitation object is form mode', () => {
    const form = decodeInputRequest('elicitation/create', { message: 'x' })!;
    expect(declares({ elicitation: {} }, requiredCapability(form))).toBe(true);
    const url = decodeInputRequest('elicitation/create', { mode: 'url', url: 'https://x', message: 'x' })!;
    expect(declares({ elicitation: {} }, requiredCapability(url))).toBe(false);
  });
});

describe('questions', () => {
  const form = (properties: JsonObject): { method: 'elicitation/create'; params: JsonObject } => ({
    method: 'elicitation/create',
    params: { mode: 'form', message: 'm', requestedSchema: { type: 'object', properties } },
  });

  it('become plain forms for 2025-06-18', () => {
    const question = form({
      colour: { type: 'string', oneOf: [{ const: 'r', title: 'Red' }], default: 'r' },
      sure: { type: 'boolean', default: true },
    });
    expect(encodeInputRequest(question, C, 'id')).toEqual({
      params: {
        message: 'm',
        requestedSchema: {
          type: 'object',
          properties: {
            colour: { type: 'string', enum: ['r'], enumNames: ['Red'] },
            sure: { type: 'boolean', default: true },
          },
        },
      },
    });
    expect(encodeInputRequest(form({ many: { type: 'array', items: {} } }), C, 'id')).toHaveProperty('impossible');
    expect(encodeInputRequest(question, B, 'id')).toHaveProperty('impossible');
  });

  it('in URL mode carry an id for 2025-11-25 and do not reach older clients', () => {
    const url = { method: 'elicitation/create' as const, params: { mode: 'url', url: 'https://x', message: 'm' } };
    expect(encodeInputRequest(url, D, 'id')).toEqual({ params: { ...url.params, elicitationId: 'id' } });
    expect(encodeInputRequest(url, C, 'id')).toHaveProperty('impossible');
  });

  it('to a model are split if a message can hold one block only', () => {
    const question = {
      method: 'sampling/createMessage' as const,
      params: {
        maxTokens: 1,
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'a' },
              { type: 'text', text: 'b' },
            ],
          },
        ],
      },
    };
    expect(encodeInputRequest(question, C, 'id')).toMatchObject({
      params: { messages: [{ content: { text: 'a' } }, { content: { text: 'b' } }] },
    });
    expect(encodeInputRequest({ ...question, params: { ...question.params, tools: [] } }, C, 'id')).toHaveProperty(
      'impossible',
    );
  });
});

describe('BR-20: errors', () => {
  const read = { method: 'resources/read', uri: 'x://y' };

  it('for a missing resource have the code of the client’s era', () => {
    const missing = new UpstreamRpcError(-32002, 'gone', undefined);
    expect(encodeFailure(missing, D, read)).toMatchObject({ error: { code: -32002, data: { uri: 'x://y' } } });
    expect(encodeFailure(missing, E, read)).toMatchObject({ error: { code: -32602, data: { uri: 'x://y' } } });
    const modern = new UpstreamRpcError(-32602, 'Resource not found', { uri: 'x://y' });
    expect(encodeFailure(modern, D, read)).toMatchObject({ error: { code: -32002 } });
  });

  it('that describe a hop are not relayed', () => {
    for (const code of [-32020, -32021, -32022, -32042]) {
      const seen = encodeFailure(new UpstreamRpcError(code, 'x', { a: 1 }), E, { method: 'tools/call' });
      expect(seen).toMatchObject({ error: { code: -32603, data: { code } }, status: 200 });
    }
  });

  it('for a missing capability are a tool result, or -32021 with 400', () => {
    const error = new ProtocolError('missing_capability', 'needs elicitation', { data: { requiredCapabilities: {} } });
    expect(encodeFailure(error, D, { method: 'tools/call' })).toMatchObject({ result: { isError: true } });
    expect(encodeFailure(error, D, { method: 'prompts/get' })).toMatchObject({ error: { code: -32603 } });
    expect(encodeFailure(error, E, { method: 'tools/call' })).toMatchObject({ error: { code: -32021 }, status: 400 });
  });
});

describe('BR-28: tasks', () => {
  const view: TaskView = {
    taskId: 't',
    status: 'completed',
    createdAt: 'c',
    lastUpdatedAt: 'u',
    ttlMs: 1,
    pollIntervalMs: 2,
    result: { content: [], isError: true },
  };

  it('whose tool reported an error have failed in 2025-11-25', () => {
    expect(experimentalTask(view)).toEqual({
      taskId: 't',
      status: 'failed',
      createdAt: 'c',
      lastUpdatedAt: 'u',
      ttl: 1,
      pollInterval: 2,
    });
    expect(experimentalTask({ ...view, result: { content: [] } })['status']).toBe('completed');
  });
});
