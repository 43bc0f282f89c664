import { describe, expect, test, vi } from 'vitest';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { DocumentProblem, readDocument } from './document.js';
import { type Operation, operationsOf } from './operations.js';
import { encodeRequest } from './request-encoding.js';
import { resultOf } from './tool-result.js';

const api = (paths: object, more: object = {}): JsonObject =>
  ({ openapi: '3.1.0', info: { title: 'API', version: '1' }, paths, ...more }) as JsonObject;
const only = (operation: object, path = '/pets', method = 'get', more: object = {}): Operation => {
  const { operations, skipped } = operationsOf(api({ [path]: { [method]: operation } }, more));
  expect(skipped).toEqual([]);
  expect(operations).toHaveLength(1);
  return operations[0]!;
};
const schemaOf = ({ tool }: Operation): JsonObject => tool['inputSchema'] as JsonObject;
const skippedOf = (paths: object, more: object = {}): readonly string[] => operationsOf(api(paths, more)).skipped;

describe('a document', () => {
  test('is JSON or YAML of OpenAPI 3', () => {
    expect(readDocument('{"openapi":"3.0.3","paths":{}}')).toMatchObject({ openapi: '3.0.3' });
    expect(readDocument('openapi: 3.1.0\npaths: {}\n')).toMatchObject({ openapi: '3.1.0' });
  });

  test.each([
    ['{', /neither JSON nor YAML/],
    ['a: [', /neither JSON nor YAML/],
    ['[]', /not an OpenAPI document/],
    ['swagger: "2.0"', /Swagger 2.0/],
    ['openapi: 4.0.0', /not an OpenAPI 3/],
    ['{}', /not an OpenAPI 3/],
  ])('%j is refused', (text, message) => {
    expect(() => readDocument(text)).toThrow(DocumentProblem);
    expect(() => readDocument(text)).toThrow(message);
  });

  test('may have a byte order mark, a version without quotes, and merge keys', () => {
    expect(readDocument('\uFEFF{"openapi":"3.0.3"}')).toMatchObject({ openapi: '3.0.3' });
    expect(readDocument('\uFEFFopenapi: 3.0.3')).toMatchObject({ openapi: '3.0.3' });
    expect(readDocument('openapi: 3.1\npaths: {}')).toMatchObject({ paths: {} });
    expect(readDocument('openapi: 3.0\npaths: {}')).toMatchObject({ paths: {} });
    expect(readDocument('openapi: 3.0.3\na: &a {x: 1}\nb:\n  <<: *a\n  y: 2')).toMatchObject({ b: { x: 1, y: 2 } });
    const bomb = `openapi: 3.0.3\na: &a {x: 1}\nb: [${'{<<: *a},'.repeat(101)}]`;
    expect(() => readDocument(bomb)).toThrow(/more than 100 YAML merge keys/);
  });

  test('with an error names its line, and quotes nothing', () => {
    const message = (text: string): string => {
      try {
        readDocument(text);
      } catch (error) {
        return (error as Error).message;
      }
      return '';
    };
    expect(message('openapi: 3.0.3\nsecret: 1\nsecret: 2')).toBe('is neither JSON nor YAML: duplicate key in line 3');
    expect(message('{\n"openapi": "3.0.3",\n"secret": }')).toMatch(/^is neither JSON nor YAML(: an error in line 3)?$/);
    const warned = vi.spyOn(process, 'emitWarning');
    expect(readDocument('openapi: 3.0.3\nx: !secret 1')).toMatchObject({ x: '1' });
    expect(warned).not.toHaveBeenCalled();
  });

  test('with many aliases, or nested without end, is refused', () => {
    const bomb = `a: &a [1,2]\n${'bcdefghijk'
      .split('')
      .map((key, n) => `${key}: &${key} [*${'abcdefghijk'[n]},*${'abcdefghijk'[n]},*${'abcdefghijk'[n]}]`)
      .join('\n')}`;
    expect(() => readDocument(bomb)).toThrow(DocumentProblem);
    expect(() => readDocument(`a: ${'['.repeat(100_000)}`)).toThrow(DocumentProblem);
    expect(() => readDocument(`openapi: 3.1.0\nx: ${'y'.repeat(1_100_000)}`)).toThrow(/convert it to JSON/);
  });
});

describe('the base URL', () => {
  const other = [{ url: 'https://uploads.example' }];

  test('has the default values of its variables', () => {
    const url = 'https://{region}.example/{version}/{missing}';
    const variables = { region: { default: 'eu' }, version: { default: 'v1' } };
    expect(operationsOf(api({}, { servers: [{ url, variables }] })).server).toBe('https://eu.example/v1/{missing}');
    expect(operationsOf(api({})).server).toBeUndefined();
  });

  test('can be that of the paths; an operation with another base URL is not offered', () => {
    const own = operationsOf(api({ '/a': { servers: other, get: {} }, '/b': { get: { servers: other } } }));
    expect(own).toMatchObject({ server: 'https://uploads.example', skipped: [] });
    expect(own.operations).toHaveLength(2);
    const mixed = operationsOf(
      api({ '/a': { get: {} }, '/b': { get: { servers: other } } }, { servers: [{ url: '/v1' }] }),
    );
    expect(mixed.operations.map(({ path }) => path)).toEqual(['/a']);
    expect(mixed.skipped).toEqual([expect.stringMatching(/^GET \/b: it has a base URL of its own/)]);
  });
});

describe('names', () => {
  test('come from operationId, cleaned and unique, otherwise from method and path', () => {
    const { operations } = operationsOf(
      api({
        '/a': { get: { operationId: 'pets.list/all' }, post: { operationId: 'pets_list_all' } },
        '/a/{id}': { parameters: [{ name: 'id', in: 'path', schema: {} }], delete: {} },
        '/b': { get: { operationId: 'x'.repeat(200) } },
        '/c': { get: { operationId: '__' }, put: { operationId: '??' } },
      }),
    );
    expect(operations.map(({ name }) => name)).toEqual([
      'pets_list_all',
      'pets_list_all_2',
      'delete_a_id',
      'x'.repeat(59),
      'operation',
      'operation_2',
    ]);
  });

  test('tools have descriptions and the hints of their method', () => {
    expect(only({ summary: 'Lists pets', description: 'All of them', deprecated: true }).tool).toMatchObject({
      title: 'Lists pets',
      description: 'Deprecated.\n\nLists pets\n\nAll of them',
      annotations: { readOnlyHint: true },
    });
    expect(only({}, '/pets', 'delete').tool).toMatchObject({
      description: 'DELETE /pets',
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
    });
    expect(only({}, '/pets', 'post').tool).toMatchObject({
      annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
    });
  });
});

describe('the input schema', () => {
  test('has parameters of the path and of the operation, and the body', () => {
    const { operations } = operationsOf(
      api(
        {
          '/pets/{id}': {
            parameters: [
              { $ref: '#/components/parameters/Id' },
              { name: 'lang', in: 'query', schema: { type: 'string' } },
            ],
            put: {
              operationId: 'put',
              parameters: [
                {
                  name: 'lang',
                  in: 'query',
                  required: true,
                  description: 'The language',
                  schema: { enum: ['de', 'en'] },
                },
                { name: 'id', in: 'query', schema: { type: 'integer' } },
              ],
              requestBody: {
                required: true,
                content: { 'application/json': { schema: { $ref: '#/components/schemas/Pet' } } },
              },
            },
          },
        },
        {
          components: {
            parameters: { Id: { name: 'id', in: 'path', required: true, schema: { type: 'integer' } } },
            schemas: {
              Pet: {
                type: 'object',
                'x-internal': 1,
                properties: {
                  name: { type: 'string', nullable: true, example: 'Rex' },
                  age: { type: 'integer', minimum: 0, exclusiveMinimum: true },
                  friend: { $ref: '#/components/schemas/Pet' },
                },
              },
            },
          },
        },
      ),
    );
    expect(schemaOf(operations[0]!)).toEqual({
      type: 'object',
      properties: {
        id: { type: 'integer' },
        lang: { enum: ['de', 'en'], description: 'The language' },
        query_id: { type: 'integer' },
        body: { $ref: '#/$defs/Pet' },
      },
      required: ['id', 'lang', 'body'],
      additionalProperties: false,
      $defs: {
        Pet: {
          type: 'object',
          properties: {
            name: { type: ['string', 'null'] },
            age: { type: 'integer', exclusiveMinimum: 0 },
            friend: { $ref: '#/$defs/Pet' },
          },
        },
      },
    });
  });

  test('contains only valid JSON Schema, because validators of clients refuse anything else', () => {
    const schema = {
      type: 'object',
      required: ['id', 'name', 'made'],
      id: 'Pet',
      dependencies: { a: { $ref: '#/components/schemas/A' } },
      properties: {
        id: { type: 'integer', readOnly: true },
        made: { $ref: '#/components/schemas/Made' },
        name: { type: 'string', required: true, minLength: '1', maxLength: 5 },
        photo: { type: 'file', description: 7 },
        tags: { type: ['array', 'null'], items: { type: 'any' }, enum: [], uniqueItems: 'yes' },
        owner: { nullable: true, allOf: [{ $ref: '#/components/schemas/A' }], description: 'The owner' },
      },
    };
    const more = {
      components: { schemas: { A: { type: 'string' }, Made: { type: 'string', readOnly: true } } },
    };
    const body = { requestBody: { content: { 'application/json': { schema } } } };
    expect(schemaOf(only(body, '/x', 'post', more))['properties']).toEqual({
      body: {
        type: 'object',
        required: ['name'],
        properties: {
          id: { type: 'integer', readOnly: true },
          made: { $ref: '#/$defs/Made' },
          name: { type: 'string', maxLength: 5 },
          photo: {},
          tags: { type: ['array', 'null'], items: {} },
          owner: { description: 'The owner', anyOf: [{ allOf: [{ $ref: '#/$defs/A' }] }, { type: 'null' }] },
        },
      },
    });
  });

  test('fetches no other document, and survives references in a circle', () => {
    const json = (schema: object): object => ({ requestBody: { content: { 'application/json': { schema } } } });
    const foreign = only(json({ properties: { a: { $ref: 'https://evil.example/schema.json' } } }), '/x', 'post');
    expect(schemaOf(foreign)['properties']).toEqual({ body: { properties: { a: {} } } });
    const loop = { components: { parameters: { A: { $ref: '#/components/parameters/A' } } } };
    expect(skippedOf({ '/x': { get: { parameters: [{ $ref: '#/components/parameters/A' }] } } }, loop)).toEqual([
      'GET /x: a parameter cannot be read',
    ]);
  });

  test('has a limited depth and size', () => {
    let deep: object = { type: 'string' };
    for (let n = 0; n < 490; n++) deep = { items: deep };
    const body = (schema: object): object => ({ requestBody: { content: { 'application/json': { schema } } } });
    expect(JSON.stringify(only(body(deep), '/x', 'post').tool).length).toBeLessThan(2_000);
    const wide = { properties: Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`p${n}`, {}])) };
    expect(skippedOf({ '/x': { post: body(wide) } })).toEqual(['POST /x: its schemas are too large']);
    const many = Object.fromEntries(Array.from({ length: 1_100 }, (_, n) => [`/p${n}`, { get: {} }]));
    expect(operationsOf(api(many)).operations).toHaveLength(1_000);
    expect(skippedOf(many)[0]).toContain('at most 1000');
  });

  const LONG = 'a'.repeat(200_000);
  const shared = (parameter: object): object => ({
    operation: { parameters: [{ $ref: '#/components/parameters/shared' }] },
    components: { parameters: { shared: { in: 'query', name: 'q', schema: {}, ...parameter } } },
  });
  const body = (schema: object): object => ({
    operation: {
      requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/shared' } } } },
    },
    components: { schemas: { shared: schema } },
  });
  const numbered = (of: (n: number) => string): string[] => Array.from({ length: 100_000 }, (_, n) => of(n));

  test.each<[string, { operation?: object; components?: object }, RegExp]>([
    ['the name of a parameter', shared({ name: LONG }), /name of a parameter is too long/],
    ['the place of a parameter', shared({ in: LONG }), /name of a parameter is too long/],
    ['an enumeration', body({ enum: numbered((n) => `v${n}`) }), /schemas are too large/],
    ['a list of required members', body({ required: numbered((n) => `v${n}`) }), /schemas are too large/],
    ['a description in a schema', body({ description: LONG.repeat(5) }), /schemas are too large/],
    ['members that are not schemas', body({ properties: { ...numbered((n) => `v${n}`) } }), /schemas are too large/],
    ['members that are not used', body({ example: { a: LONG.repeat(5) } }), /schemas are too large/],
    ['a default', body({ default: { a: LONG.repeat(5) } }), /schemas are too large/],
  ])(
    'is refused if any number of operations share a text of unlimited length: %s',
    (_, { operation, components }, why) => {
      const paths = Object.fromEntries(Array.from({ length: 3 }, (_, n) => [`/${n}`, { get: operation }]));
      const { operations, skipped } = operationsOf(api(paths, { components }));
      expect(operations).toEqual([]);
      expect(skipped).toHaveLength(3);
      for (const reason of skipped) expect(reason).toMatch(why);
    },
  );

  test('is limited in size for all tools together', () => {
    const { operation, components } = body({ description: LONG }) as { operation: object; components: object };
    const paths = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`/${n}`, { get: operation }]));
    const { operations, skipped } = operationsOf(api(paths, { components }));
    expect(JSON.stringify(operations.map(({ tool }) => tool)).length).toBeLessThan(20 * 1024 * 1024);
    expect(skipped.at(-1)).toContain('and others');
  });

  test('reads the beginning of long texts only, and no long path, reference or list of types', () => {
    const spaces = ' '.repeat(100_000);
    const { tool } = only({ description: `${spaces}late`, summary: `${spaces}late`, operationId: `${LONG}_b` });
    expect([tool['description'], tool['title'], String(tool['name']).length]).toEqual(['GET /pets', undefined, 59]);
    const [reason] = skippedOf({ [`/${'{'.repeat(100_000)}`]: { get: {} } });
    expect(reason).toMatch(/its path is too long$/);
    expect(reason!.length).toBeLessThan(1_000);
    const named = { components: { schemas: { [LONG]: { type: 'string' } } } };
    const schema = { $ref: `#/components/schemas/${LONG}` };
    expect(
      JSON.stringify(only({ parameters: [{ name: 'q', in: 'query', schema }] }, '/x', 'get', named).tool),
    ).not.toContain(LONG);
    const content = Object.fromEntries(numbered((n) => `x/${n}`).map((type) => [type, {}]));
    expect(
      only({ requestBody: { content: { ...content, 'application/json': {} } } }, '/x', 'post').body,
    ).toBeUndefined();
  });

  test('survives a list of YAML that contains itself', () => {
    const text =
      'openapi: 3.1.0\npaths:\n  /x:\n    get:\n      parameters:\n        - { name: q, in: query, schema: { enum: &a [*a] } }\n';
    expect(operationsOf(readDocument(text)).skipped).toEqual(['GET /x: its schemas are too large']);
  });

  test.each([
    ['a cookie', { parameters: [{ name: 'sid', in: 'cookie', required: true }] }, /cookie parameter "sid"/],
    ['a path style', { parameters: [{ name: 'id', in: 'path', style: 'matrix' }] }, /style "matrix"/],
    ['a missing parameter', {}, /declares no path parameter "id"/],
    [
      'an upload',
      {
        parameters: [{ name: 'id', in: 'path' }],
        requestBody: { required: true, content: { 'multipart/form-data': {} } },
      },
      /multipart\/form-data/,
    ],
  ])('leaves operations out that cannot be called: %s', (_, operation, reason) => {
    expect(skippedOf({ '/x/{id}': { post: operation } })[0]).toMatch(reason);
  });

  test.each(['/../x', '/a/../b', '/a?b', '/a#b', 'a', '/a%2fb'])('leaves out the path %s', (path) => {
    expect(skippedOf({ [path]: { get: {} } })).toHaveLength(1);
  });

  test('is built from a limited number of operations, even if none can be a tool', () => {
    const broken = { parameters: [{ $ref: '#/nowhere' }] };
    const paths = Array.from({ length: 3_000 }, (_, index) => [`/${index}`, { $ref: '#/components/pathItems/all' }]);
    const pathItems = { all: { get: broken, put: broken } };
    const skipped = skippedOf(Object.fromEntries(paths), { components: { pathItems } });
    expect(skipped).toHaveLength(1_001);
    expect(skipped.at(-1)).toContain('and others');
  });

  test('lets no argument set headers of the gateway or of the connection', () => {
    const names = [
      'Authorization',
      'Cookie',
      'Host',
      'Content-Length',
      'X-Forwarded-For',
      'Proxy-Authorization',
      'a b',
    ];
    const operation = only({ parameters: [...names, 'X-Tenant'].map((name) => ({ name, in: 'header', schema: {} })) });
    expect(operation.parameters.map(({ name }) => name)).toEqual(['X-Tenant']);
  });
});

describe('arguments', () => {
  const path = (style: object, value: unknown): string =>
    encodeRequest(only({ parameters: [{ name: 'id', in: 'path', ...style }] }, '/p/{id}/q'), {
      id: value,
    } as JsonObject).path;
  const query = (style: object, value: unknown): string =>
    encodeRequest(only({ parameters: [{ name: 'q', in: 'query', schema: {}, ...style }] }), { q: value } as JsonObject)
      .query;

  test('in the path are one segment', () => {
    expect(path({}, 'a b?c#d&e=f')).toBe('p/a%20b%3Fc%23d%26e%3Df/q');
    expect(path({}, [1, 2])).toBe('p/1,2/q');
    expect(path({}, { a: 1, b: 'x,y' })).toBe('p/a,1,b,x%2Cy/q');
    expect(path({ explode: true }, { a: 1 })).toBe('p/a=1/q');
    for (const value of ['..', '.', '%2e%2e/..', '../admin', 'a\\b', '', 'a\0b', null])
      expect(() => path({}, value)).toThrow(ProtocolError);
  });

  test('in the query have the style of the parameter', () => {
    expect(query({}, ['a', 'b&c'])).toBe('q=a&q=b%26c');
    expect(query({ explode: false }, ['a', 'b'])).toBe('q=a,b');
    expect(query({ style: 'spaceDelimited', explode: false }, ['a', 'b'])).toBe('q=a%20b');
    expect(query({ style: 'pipeDelimited', explode: false }, ['a', 'b'])).toBe('q=a%7Cb');
    expect(query({ style: 'deepObject' }, { a: 1, 'b]': 2 })).toBe('q%5Ba%5D=1&q%5Bb%5D%5D=2');
    expect(query({ style: 'deepObject', explode: true }, { a: { b: [1, 2] }, c: null })).toBe(
      'q%5Ba%5D%5Bb%5D%5B0%5D=1&q%5Ba%5D%5Bb%5D%5B1%5D=2',
    );
    const nested = Array.from({ length: 11 }).reduce<unknown>((inner) => ({ a: inner }), 1);
    expect(() => query({ style: 'deepObject' }, nested)).toThrow(/more than 10 levels/);
    expect(query({ style: 'deepObject', explode: true }, ['x', 'y'])).toBe('q%5B0%5D=x&q%5B1%5D=y');
    expect(query({}, { a: 1, b: true })).toBe('a=1&b=true');
    expect(query({ explode: false }, { a: 1 })).toBe('q=a,1');
    expect(query({ schema: undefined, content: { 'application/json': {} } }, { a: [1] })).toBe(
      'q=%7B%22a%22%3A%5B1%5D%7D',
    );
    expect(query({}, 'grüße \ud800')).toBe('q=gr%C3%BC%C3%9Fe%20%EF%BF%BD');
    expect(query({}, null)).toBe('');
    expect(() => query({}, [[1]])).toThrow(/nested lists or objects/);
  });

  test('in headers cannot add a header', () => {
    const operation = only({ parameters: [{ name: 'X-Tenant', in: 'header', schema: {} }] });
    expect(encodeRequest(operation, { 'X-Tenant': ['a', 'b'] }).headers.slice(-2)).toEqual(['X-Tenant', 'a,b']);
    for (const value of ['a\r\nAuthorization: x', 'a\nb', 'é', 'a\0'])
      expect(() => encodeRequest(operation, { 'X-Tenant': value })).toThrow(/no header can carry/);
  });

  test('in bodies are JSON, a form or text', () => {
    const sent = (type: string, body: unknown): string[] => {
      const operation = only({ requestBody: { content: { [type]: { schema: {} } } } }, '/x', 'post');
      const request = encodeRequest(operation, { body } as JsonObject);
      return [...request.headers.slice(-2), String(request.body)];
    };
    expect(sent('application/json', { a: 'é' })).toEqual(['Content-Type', 'application/json', '{"a":"é"}']);
    expect(sent('application/merge-patch+json', null)).toEqual([
      'Content-Type',
      'application/merge-patch+json',
      'null',
    ]);
    expect(sent('application/x-www-form-urlencoded', { a: '1&b', c: [1, 2] })[2]).toBe('a=1%26b&c=1&c=2');
    expect(sent('text/plain', 'hello')[2]).toBe('hello');
    expect(() => sent('text/plain', 5)).toThrow(/must be a text/);
    expect(() => sent('application/x-www-form-urlencoded', 'a=b')).toThrow(/must be an object/);
  });

  test('in forms have nested fields if the document defines them', () => {
    const encoding = { card: { style: 'deepObject', explode: true } };
    const content = { 'application/x-www-form-urlencoded': { schema: {}, encoding } };
    const operation = only({ requestBody: { content } }, '/x', 'post');
    const { body } = encodeRequest(operation, { body: { card: { number: 1, tags: ['a'] }, other: { x: 1 } } });
    expect(decodeURIComponent(String(body))).toBe('card[number]=1&card[tags][0]=a&other={"x":1}');
  });

  test('that are missing or unknown are refused', () => {
    const operation = only({ parameters: [{ name: 'q', in: 'query', required: true, schema: {} }] });
    expect(() => encodeRequest(operation, {})).toThrow(/"q" is required/);
    expect(() => encodeRequest(operation, { q: 1, other: 2 })).toThrow(/"other" is not an argument/);
    expect(() => encodeRequest(operation, JSON.parse('{"q":1,"__proto__":{"x":1}}'))).toThrow(/"__proto__"/);
  });
});

describe('a reply', () => {
  const reply = (status: number, type: string, body: string | Buffer, more: string[] = []) =>
    resultOf('api', { status, headers: ['content-type', type, ...more], body: Buffer.from(body as string) });

  test('of JSON is text, and structured if it is an object', () => {
    expect(reply(200, 'application/json; charset=utf-8', '{"a":1}')).toEqual({
      resultType: 'complete',
      content: [{ type: 'text', text: '{"a":1}' }],
      structuredContent: { a: 1 },
    });
    expect(reply(200, 'application/json', '[1]')).not.toHaveProperty('structuredContent');
    expect(reply(200, 'application/json', '{broken')).toMatchObject({ content: [{ text: '{broken' }] });
  });

  test('of another type is text, an image, or a resource', () => {
    expect(reply(200, 'text/csv', 'a;b')).toMatchObject({ content: [{ type: 'text', text: 'a;b' }] });
    expect(reply(200, 'image/png', 'x')).toMatchObject({
      content: [{ type: 'image', mimeType: 'image/png', data: 'eA==' }],
    });
    expect(reply(200, 'application/pdf', 'x')).toMatchObject({ content: [{ type: 'resource' }] });
    expect(reply(204, '', '')).toMatchObject({ content: [{ text: expect.stringContaining('204') }] });
  });

  test('with an error status is a tool error', () => {
    expect(reply(404, 'application/json', '{"error":"none"}')).toMatchObject({
      isError: true,
      content: [{ text: 'The server answered HTTP 404:\n{"error":"none"}' }],
    });
    expect(JSON.stringify(reply(500, 'text/plain', 'x'.repeat(100_000))).length).toBeLessThan(17_000);
    expect(reply(302, 'text/html', '', ['location', 'http://169.254.169.254/'])).toMatchObject({
      isError: true,
      content: [{ text: 'The server answered a redirect, which the gateway does not follow' }],
    });
  });

  test('that concerns the gateway itself is an error', () => {
    expect(() => reply(401, 'text/plain', 'secret details')).toThrow(/refused the credential of the gateway$/);
    expect(() => reply(429, 'text/plain', '', ['retry-after', '7'])).toThrow(
      expect.objectContaining({
        reason: 'upstream_rate_limited',
        detail: expect.objectContaining({ headers: { 'Retry-After': '7' } }),
      }),
    );
  });
});
