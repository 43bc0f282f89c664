/** Messages of a broken or hostile client: from random bytes to requests with one fault. */
import fc from 'fast-check';

const META = 'io.modelcontextprotocol';

const METHODS = [
  'initialize',
  'ping',
  'tools/list',
  'tools/call',
  'resources/list',
  'resources/read',
  'resources/templates/list',
  'resources/subscribe',
  'resources/unsubscribe',
  'prompts/list',
  'prompts/get',
  'completion/complete',
  'logging/setLevel',
  'server/discover',
  'subscriptions/listen',
  'tasks/get',
  'tasks/result',
  'tasks/list',
  'tasks/cancel',
  'tasks/update',
  'notifications/initialized',
  'notifications/cancelled',
  'notifications/progress',
  'notifications/roots/list_changed',
  'sampling/createMessage',
  'elicitation/create',
  'roots/list',
  '',
  '__proto__',
  'constructor',
  'toString',
]; // prettier-ignore

const VERSIONS = [
  '2024-11-05',
  '2025-03-26',
  '2025-06-18',
  '2025-11-25',
  '2026-07-28',
  '2099-01-01',
  '1.0',
  '',
  '__proto__',
];

/** Strings that break parsers, headers and paths. */
const nasty = fc.constantFrom(
  '',
  ' ',
  '\n',
  '\r\nX-Injected: 1',
  '\u0000',
  '\u2028',
  '\ud800',
  '"',
  '\\',
  '{',
  '__proto__',
  'constructor',
  '=?base64?%%%?=',
  '=?base64?YQ==?=',
  '../../etc/passwd',
  '%2e%2e%2f',
  '1e400',
  '-0',
  'null',
  'undefined',
  '💥',
  'a'.repeat(300),
  'echo__',
  '__',
  'echo__echo__echo',
); // prettier-ignore

const text = fc.oneof(fc.string({ maxLength: 30 }), fc.string({ unit: 'binary', maxLength: 10 }), nasty);
const json = fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' });
const value = fc.oneof(
  { weight: 3, arbitrary: json },
  { weight: 2, arbitrary: text },
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom<unknown>(null, true, false, [], {}, [[]], 0, -1, 2 ** 53, 1e308),
);

const id = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: -5, max: 1_000_000 }) },
  { weight: 4, arbitrary: fc.string({ maxLength: 12 }) },
  { weight: 1, arbitrary: value },
);

const name = fc.oneof(
  fc.constantFrom('echo__echo', 'echo.echo', 'echo', 'echo__greet', 'echo://note', 'nobody__x'),
  text,
);

const params = fc.oneof(
  fc.record({ name, arguments: fc.oneof(fc.record({ text }), value) }, { requiredKeys: [] }),
  fc.record({ uri: name }, { requiredKeys: [] }),
  fc.record({ cursor: text }, { requiredKeys: [] }),
  fc.record({ level: fc.oneof(fc.constantFrom('info', 'debug'), text) }),
  fc.record({ requestId: id, reason: text }, { requiredKeys: [] }),
  fc.record({
    notifications: fc.oneof(
      fc.record({ toolsListChanged: fc.boolean(), resourceSubscriptions: fc.array(text, { maxLength: 3 }) }),
      value,
    ),
  }),
  fc.record(
    { ref: fc.record({ type: fc.constantFrom('ref/prompt', 'ref/resource', 'x'), name, uri: name }), argument: value },
    { requiredKeys: [] },
  ),
  fc.record(
    { protocolVersion: fc.oneof(fc.constantFrom(...VERSIONS), value), capabilities: value, clientInfo: value },
    { requiredKeys: [] },
  ),
  fc.record({ taskId: text, requestState: text, inputResponses: value }, { requiredKeys: [] }),
  fc.dictionary(text, value, { maxKeys: 5 }),
);

const envelope = fc.record(
  {
    [`${META}/protocolVersion`]: fc.oneof(
      { weight: 4, arbitrary: fc.constant('2026-07-28') },
      { weight: 1, arbitrary: fc.oneof(fc.constantFrom(...VERSIONS), value) },
    ),
    [`${META}/clientCapabilities`]: fc.oneof(
      { weight: 4, arbitrary: fc.constant({}) },
      { weight: 1, arbitrary: value },
    ),
    [`${META}/clientInfo`]: fc.oneof(fc.constant({ name: 'fuzz', version: '1' }), value),
    [`${META}/logLevel`]: fc.oneof(fc.constantFrom('info', 'debug'), value),
    progressToken: fc.oneof(fc.integer(), text, value),
  },
  { requiredKeys: [] },
);

const withMeta = fc
  .tuple(params, fc.option(fc.oneof({ weight: 5, arbitrary: envelope }, { weight: 1, arbitrary: value })))
  .map(([base, meta]) => (meta === null ? base : { ...base, _meta: meta }));

/** A nearly valid message: each member may be missing or invalid. */
const message = fc.record(
  {
    jsonrpc: fc.oneof({ weight: 12, arbitrary: fc.constant('2.0') }, { weight: 1, arbitrary: value }),
    id,
    method: fc.oneof({ weight: 12, arbitrary: fc.constantFrom(...METHODS) }, { weight: 1, arbitrary: value }),
    params: fc.oneof({ weight: 8, arbitrary: withMeta }, { weight: 1, arbitrary: value }),
  },
  { requiredKeys: ['jsonrpc', 'method'] },
);

const response = fc.record(
  {
    jsonrpc: fc.constant('2.0'),
    id,
    result: value,
    error: fc.oneof(fc.record({ code: value, message: value, data: value }), value),
  },
  { requiredKeys: ['jsonrpc'] },
);

const whole = fc.oneof(
  { weight: 10, arbitrary: message },
  { weight: 2, arbitrary: response },
  { weight: 2, arbitrary: fc.array(fc.oneof(message, response, value), { maxLength: 6 }) },
  { weight: 1, arbitrary: value },
);

/** Bodies as bytes: complete, truncated, with changed bytes, with a duplicate member, or not JSON. */
export const body: fc.Arbitrary<Buffer> = fc.oneof(
  { weight: 10, arbitrary: whole.map((given) => Buffer.from(JSON.stringify(given) ?? 'undefined')) },
  {
    weight: 2,
    arbitrary: fc.tuple(whole, fc.nat()).map(([given, cut]) => {
      const bytes = Buffer.from(JSON.stringify(given) ?? '');
      return bytes.subarray(0, bytes.length === 0 ? 0 : cut % bytes.length);
    }),
  },
  {
    weight: 3,
    arbitrary: fc
      .tuple(whole, fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 4 }))
      .map(([given, flips]) => {
        const bytes = Buffer.from(JSON.stringify(given) ?? '');
        for (const [at, byte] of flips) if (bytes.length > 0) bytes[at % bytes.length] = byte;
        return bytes;
      }),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(message, fc.constantFrom('id', 'method', 'params', 'jsonrpc', '_meta'), value)
      .map(([given, key, other]) =>
        Buffer.from(JSON.stringify(given).replace('{', `{${JSON.stringify(key)}:${JSON.stringify(other)},`)),
      ),
  },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 3_000 }).map((depth) => Buffer.from('{"a":['.repeat(depth))) },
);

const headerText = fc.oneof(
  fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)), maxLength: 40 }),
  fc.constantFrom(
    'tools/call',
    'tools/list',
    'echo__echo',
    '=?base64?ZWNob19fZWNobw==?=',
    '=?base64??=',
    's0.0',
    's1.1',
    '0',
  ),
);

/** Additional headers; `session` stands for the client's own open session. */
export interface FuzzHeaders {
  readonly session: 'own' | 'none' | string;
  /** Whether the mirrored headers match the body. If they do, the gateway does not refuse the body because of them. */
  readonly mirror: boolean;
  readonly others: Readonly<Record<string, string>>;
}

export const headers: fc.Arbitrary<FuzzHeaders> = fc.record({
  session: fc.oneof(
    { weight: 4, arbitrary: fc.constant('own') },
    { weight: 3, arbitrary: fc.constant('none') },
    { weight: 1, arbitrary: headerText },
  ),
  mirror: fc.boolean(),
  others: fc.record(
    {
      accept: fc.oneof(
        { weight: 6, arbitrary: fc.constant('application/json, text/event-stream') },
        {
          weight: 1,
          arbitrary: fc.constantFrom('application/json', 'text/event-stream', '*/*', 'text/html', ';;,q=', ''),
        },
      ),
      'mcp-protocol-version': fc.oneof(fc.constantFrom(...VERSIONS), headerText),
      'mcp-method': fc.oneof(fc.constantFrom(...METHODS.filter((method) => method !== '')), headerText),
      'mcp-name': headerText,
      'last-event-id': headerText,
      'mcp-param-x': headerText,
    },
    { requiredKeys: [] },
  ),
});

/** The ids that an answer may have: the ids in the message. */
export function idsIn(bytes: Buffer): Set<unknown> {
  const ids = new Set<unknown>([null, undefined]);
  const visit = (given: unknown): void => {
    if (Array.isArray(given)) for (const item of given) visit(item);
    else if (typeof given === 'object' && given !== null && Object.hasOwn(given, 'id'))
      ids.add((given as { id: unknown }).id);
  };
  try {
    visit(JSON.parse(bytes.toString('utf8')));
  } catch {
    // The body is not JSON, so null is the only valid id.
  }
  return ids;
}

/** The mirrored headers of a body, if its values are valid in headers. */
export function mirrorsOf(bytes: Buffer): Record<string, string> {
  const safe = (given: unknown): given is string => typeof given === 'string' && /^[\x21-\x7e]+$/.test(given);
  try {
    const { method, params } = JSON.parse(bytes.toString('utf8')) as {
      method?: unknown;
      params?: Record<string, unknown>;
    };
    const version = (params?.['_meta'] as Record<string, unknown> | undefined)?.[`${META}/protocolVersion`];
    const name = method === 'resources/read' ? params?.['uri'] : params?.['name'];
    return {
      ...(safe(version) && { 'mcp-protocol-version': version }),
      ...(safe(method) && { 'mcp-method': method }),
      ...(safe(name) && { 'mcp-name': name }),
    };
  } catch {
    return {};
  }
}

/** The number of cases and the seed; `FUZZ_CASES` and `FUZZ_SEED` override them. */
export function settings(share: number): fc.Parameters<unknown> {
  const given = Number(process.env['FUZZ_CASES']);
  const cases = given > 0 ? given : process.env['npm_lifecycle_event'] === 'test:fuzz' ? 100_000 : 2_000;
  const seed = process.env['FUZZ_SEED'];
  return {
    numRuns: Math.ceil(cases * share),
    ...(seed !== undefined && { seed: Number(seed) }),
    interruptAfterTimeLimit: 3_600_000,
    endOnFailure: false,
  };
}
