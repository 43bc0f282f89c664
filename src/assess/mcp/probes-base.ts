/** Probes of messages, versions and the life cycle. */
import { NEWEST_LEGACY, NEWEST_MODERN, revisionOf } from '../../protocol/mcp/revisions/index.js';
import { asList, asObject, canonical, eachObject, isInteger, isObject, isText, type Json } from '../json.js';
import { expect, fail, PASS, skip, type Verdict, worst } from '../requirement.js';
import { contentType, isAccepted, isRefused, type Reply } from '../wire/reply.js';
import { isRequest, isResponse, observation, type Probe, replies, seenBy } from './observed.js';
import { harmless, initializeParams, META } from './peer.js';
import type { McpSurface } from './surface.js';

export const UNKNOWN_VERSION = '2099-01-01';
const LARGE_ID = 2 ** 31;

/** A request that changes nothing: the list of tools if there is one, otherwise discovery or ping. */
export const plainMethod = (surface: McpSurface): string =>
  surface.declares('tools') ? 'tools/list' : harmless(surface.peer.revision);

/** Whether a request was refused with the code, and over HTTP with the status. */
export function refusedWith(reply: Reply, code: number, status?: number): Verdict {
  const http = reply.status !== undefined && status !== undefined && reply.events.length === 0;
  if (reply.code !== code)
    return fail(
      `expected the error ${code}, ${reply.code === undefined ? outcome(reply) : `got ${reply.code}`}`,
      reply,
    );
  return expect(!http || reply.status === status, `expected the status ${status}, got ${reply.status}`, reply);
}

/** What came back, for the reason of a verdict. */
export function outcome(reply: Reply): string {
  if (reply.result !== undefined) return 'got a result';
  if (reply.code !== undefined) return `got the error ${reply.code}`;
  if (reply.failure !== undefined) return reply.failure;
  return reply.status === undefined ? 'got no answer' : `got the status ${reply.status}`;
}

export const served = (reply: Reply, what: string): Verdict =>
  expect(
    reply.result !== undefined,
    `${what}: ${reply.code === undefined ? outcome(reply) : `got ${reply.code}`}`,
    reply,
  );

const unknownMethod = (surface: McpSurface): Promise<Reply> =>
  surface.once('unknown method', () => surface.peer.call('parley/unknown', {}));

/** The answer to bytes that are not JSON. */
const malformed = (surface: McpSurface): Promise<Reply> =>
  surface.once('malformed JSON', () =>
    surface.peer.send('{"jsonrpc": "2.0", "id": 1, "method": ', { headers: { 'Mcp-Method': plainMethod(surface) } }),
  );

const unsupported = (surface: McpSurface): Promise<Reply> =>
  surface.once('unsupported version', () =>
    surface.peer.call(
      plainMethod(surface),
      {},
      { meta: { [META.version]: UNKNOWN_VERSION }, headers: { 'MCP-Protocol-Version': UNKNOWN_VERSION } },
    ),
  );

const anyResponse = (messages: readonly unknown[]): boolean =>
  messages.some((each) => isObject(each) && isResponse(each));

async function echoed(surface: McpSurface, id: string | number): Promise<Verdict> {
  const reply = await surface.peer.call(harmless(surface.peer.revision), undefined, { id, enough: anyResponse });
  if (reply.response === undefined) return fail(`the request was not answered: ${outcome(reply)}`, reply);
  const got = JSON.stringify(reply.response['id']) ?? 'no id';
  return expect(reply.response['id'] === id, `the id ${JSON.stringify(id)} came back as ${got}`, reply);
}

/** After wrong input the server must go on. */
async function goesOn(surface: McpSurface): Promise<Verdict> {
  const reply = await surface.peer.call(harmless(surface.peer.revision));
  return expect(reply.response !== undefined, `the server did not answer afterwards: ${outcome(reply)}`, reply);
}

const LABEL = '[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?';
const NAME = '(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?';
/** A key longer than this is not compared with the grammar, whose comparison takes quadratic time. */
const LONGEST_KEY = 512;
const META_KEY = new RegExp(`^(?:${LABEL}(?:\\.${LABEL})*/)?${NAME}$`);
const EXTENSION_KEY = new RegExp(`^${LABEL}(?:\\.${LABEL})*/${NAME}$`);

const isMetaKey = (key: string): boolean => key.length <= LONGEST_KEY && META_KEY.test(key);

/** Values whose keys belong to the server. */
const DATA: ReadonlySet<string> = new Set([
  'inputSchema',
  'outputSchema',
  'requestedSchema',
  'structuredContent',
  'data',
]);

const DEFINED_CODES: ReadonlySet<number> = new Set([-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022]);
const RETIRED_CODES: ReadonlySet<number> = new Set([-32002, -32042]);

const codeRule = (wrong: (code: number) => boolean, text: string): Probe =>
  replies(
    (reply) => reply.code !== undefined,
    ({ code }) => (wrong(code!) ? `the error code ${code} ${text}` : undefined),
    'no error was sent',
  );

/** The capabilities of the server with the wrong shape. */
function wrongCapability(capabilities: Json): string | undefined {
  for (const [name, value] of Object.entries(capabilities)) {
    if (!isObject(value)) return `the capability ${name} is not an object`;
    for (const flag of ['listChanged', 'subscribe'])
      if (flag in value && typeof value[flag] !== 'boolean') return `${name}.${flag} is not a boolean`;
  }
  return undefined;
}

/** Methods that need a capability of the server. */
const BEHIND_CAPABILITIES: readonly (readonly [string, string, Json])[] = [
  ['tools', 'tools/list', {}],
  ['resources', 'resources/list', {}],
  ['prompts', 'prompts/list', {}],
  [
    'completions',
    'completion/complete',
    { ref: { type: 'ref/prompt', name: 'parley' }, argument: { name: 'none', value: '' } },
  ],
];

const CHANGES: Readonly<Record<string, string>> = {
  'notifications/tools/list_changed': 'tools',
  'notifications/prompts/list_changed': 'prompts',
  'notifications/resources/list_changed': 'resources',
};

/** Fields of results that only the modern era has. */
const MODERN_FIELDS = ['resultType', 'ttlMs', 'cacheScope'];

const CLIENT_FEATURES: ReadonlySet<unknown> = new Set(['sampling/createMessage', 'roots/list', 'elicitation/create']);
const EARLY: ReadonlySet<unknown> = new Set(['ping', 'notifications/message']);

/** A result without the parts that may differ between two answers: `ttlMs`, which may count down, and `_meta`. */
const lasting = (result: Json | undefined): Json => ({ ...result, ttlMs: undefined, _meta: undefined });

/** The answer to a handshake with a version that no server supports. */
const unknownVersion = (surface: McpSurface): Promise<Reply> =>
  surface.once('unknown version', async () => {
    const other = await surface.options.fresh({ version: '1999-01-01' });
    await other.close();
    return other.opening;
  });

export const BASE_PROBES: Readonly<Record<string, Probe>> = {
  unknownMethod: async (surface) => refusedWith(await unknownMethod(surface), -32601),
  malformedJson: async (surface) => {
    const reply = await malformed(surface);
    if (reply.code !== undefined && reply.code !== -32700)
      return fail(`expected the error -32700, got ${reply.code}`, reply);
    // The specification asks for the status of an error, and leaves open which.
    if (isAccepted(reply) && reply.code === undefined && surface.peer.transport === 'http')
      return fail(`expected the status of an error, got ${reply.status}`, reply);
    return goesOn(surface);
  },
  invalidRequest: async (surface) => {
    const text = JSON.stringify({ jsonrpc: '2.0', id: 'parley-invalid', metod: 'ping', params: {} });
    const reply = await surface.peer.send(text, { headers: { 'Mcp-Method': 'ping' } });
    if (reply.messages.some((each) => isObject(each) && 'result' in each))
      return fail('an object without a method was answered with a result', reply);
    if (surface.peer.transport === 'http' && isAccepted(reply) && reply.error === undefined && reply.status !== 202)
      return fail(`an object without a method got the status ${reply.status} and no error`, reply);
    return goesOn(surface);
  },
  unreadableId: async (surface) => {
    const reply = await malformed(surface);
    if (reply.response === undefined) return skip('no error was sent');
    const id = reply.response['id'] ?? null;
    return expect(id === null, `the error for an unreadable request has the id ${JSON.stringify(id)}`, reply);
  },
  reservedMeta: async (surface) => {
    const meta = { 'io.modelcontextprotocol/parley-unknown': { any: ['value'] }, 'com.example/parley': 1 };
    return served(await surface.peer.call(plainMethod(surface), {}, { meta }), 'unknown keys in _meta were refused');
  },
  undeclaredMethods: async (surface) => {
    const verdicts: Verdict[] = [];
    for (const [capability, method, params] of BEHIND_CAPABILITIES)
      if (!surface.declares(capability)) verdicts.push(refusedWith(await surface.peer.call(method, params), -32601));
    return verdicts.length === 0 ? skip('the server declares every capability') : worst(verdicts);
  },
  stringId: (surface) => echoed(surface, 'parley-1'),
  integerId: async (surface) => worst([await echoed(surface, 0), await echoed(surface, LARGE_ID)]),
  notificationSilence: async (surface) => {
    const reply = await surface.peer.notify('notifications/parley-unknown', {});
    const answer = reply.messages.find(
      (each) =>
        isObject(each) &&
        isResponse(each) &&
        (isAccepted(reply) || reply.status === undefined || (each['id'] ?? null) !== null),
    );
    return expect(answer === undefined, 'a notification was answered', reply);
  },
  batch: async (surface) => {
    const batch = ['parley-a', 'parley-b'].map((id) => ({ jsonrpc: '2.0', id, method: 'ping' }));
    const ids = (messages: readonly unknown[]): unknown[] =>
      messages.flatMap((each) => (Array.isArray(each) ? each : [each])).map((each) => asObject(each)['id']);
    const enough = (messages: readonly unknown[]): boolean => ids(messages).length >= batch.length;
    const reply = await surface.peer.send(JSON.stringify(batch), { enough });
    const answered = batch.every(({ id }) => ids(reply.messages).includes(id)) && reply.error === undefined;
    return expect(answered, `not every request of a batch was answered: ${outcome(reply)}`, reply);
  },
  noBatch: async (surface) => {
    const { peer } = surface;
    const method = harmless(peer.revision);
    const meta = surface.modern
      ? { params: { _meta: { [META.version]: peer.revision.date, [META.capabilities]: {} } } }
      : {};
    const batch = ['parley-a', 'parley-b'].map((id) => ({ jsonrpc: '2.0', id, method, ...meta }));
    const reply = await peer.send(JSON.stringify(batch), { headers: { 'Mcp-Method': method } });
    const results = reply.messages.flat().filter((each) => isObject(each) && 'result' in each);
    if (results.length > 0) return fail('the messages of an array were answered', reply);
    return expect(
      peer.transport !== 'http' || isRefused(reply) || reply.error !== undefined,
      `an array of messages was accepted with the status ${reply.status}`,
      reply,
    );
  },
  initializeResult: ({ peer }) => {
    const { result } = peer.opening;
    const info = asObject(result?.['serverInfo']);
    const missing = [
      ...(isText(result?.['protocolVersion']) ? [] : ['protocolVersion']),
      ...(isObject(result?.['capabilities']) ? [] : ['capabilities']),
      ...(isText(info['name']) ? [] : ['serverInfo.name']),
      ...(isText(info['version']) ? [] : ['serverInfo.version']),
      ...(['string', 'undefined'].includes(typeof result?.['instructions']) ? [] : ['instructions']),
    ];
    return expect(missing.length === 0, `missing or wrong: ${missing.join(', ')}`, peer.opening);
  },
  capabilityShapes: (surface) => {
    const wrong = wrongCapability(surface.capabilities);
    return expect(wrong === undefined, wrong ?? '', surface.peer.opening);
  },
  earlyMessages: ({ peer }) => {
    if (peer.transport === 'http') return skip('over HTTP no message can arrive before the client is initialized');
    const early = peer.early.find((each) => isObject(each) && 'method' in each && !EARLY.has(each['method']));
    return expect(
      early === undefined,
      `${asObject(early)['method']} was sent before notifications/initialized`,
      peer.opening,
    );
  },
  echoVersion: async (surface) => {
    const { date } = surface.peer.revision;
    const again = await surface.options.fresh();
    const version = again.opening.result?.['protocolVersion'];
    await again.close();
    return expect(version === date, `requested ${date}, which the server supports, and got ${version}`, again.opening);
  },
  otherVersion: async (surface) => {
    const opening = await unknownVersion(surface);
    const version = opening.result?.['protocolVersion'];
    if (!isText(version)) return fail(`an unknown version was refused: ${outcome(opening)}`, opening);
    const known = surface.options.revisions.includes(version) || revisionOf(version)?.era === 'legacy';
    return expect(known, `answered with ${version}, which the server does not support`, opening);
  },
  latestVersion: async (surface) => {
    const opening = await unknownVersion(surface);
    const version = opening.result?.['protocolVersion'];
    if (!isText(version)) return skip('an unknown version was refused');
    const latest = surface.options.revisions.filter((date) => date <= NEWEST_LEGACY.date).sort();
    return expect(version >= latest.at(-1)!, `answered with ${version} instead of ${latest.at(-1)}`, opening);
  },
  modernVersion: async (surface) => {
    const other = await surface.options.fresh({ version: NEWEST_MODERN.date });
    const version = other.opening.result?.['protocolVersion'];
    await other.close();
    if (version === undefined) return fail(`initialize was refused: ${outcome(other.opening)}`, other.opening);
    return expect(revisionOf(version)?.era === 'legacy', `initialize was answered with ${version}`, other.opening);
  },
  pingFirst: async (surface) => {
    const bare = await surface.options.fresh({ bare: true });
    const reply = await bare.call('ping');
    await bare.close();
    return served(reply, 'ping before initialize was not answered');
  },
  ping: async ({ peer }) => {
    const reply = await peer.call('ping');
    const keys = Object.keys(reply.result ?? {}).filter((key) => key !== '_meta');
    if (reply.result === undefined) return served(reply, 'ping was not answered');
    return expect(keys.length === 0, `the result of ping has ${keys.join(', ')}`, reply);
  },
  missingCapabilities: async (surface) =>
    refusedWith(
      await surface.peer.call(plainMethod(surface), {}, { meta: { [META.capabilities]: undefined } }),
      -32602,
      400,
    ),
  malformedCapabilities: async (surface) =>
    refusedWith(
      await surface.peer.call(plainMethod(surface), {}, { meta: { [META.capabilities]: 'none' } }),
      -32602,
      400,
    ),
  missingVersion: async (surface) =>
    refusedWith(
      await surface.peer.call(plainMethod(surface), {}, { meta: { [META.version]: undefined } }),
      -32602,
      400,
    ),
  noClientInfo: async (surface) =>
    served(
      await surface.peer.call(plainMethod(surface), {}, { meta: { [META.client]: undefined } }),
      'a request without clientInfo was refused',
    ),
  clientInfoIgnored: async (surface) => {
    const method = plainMethod(surface);
    const own = await surface.peer.call(method, {});
    const other = await surface.peer.call(
      method,
      {},
      { meta: { [META.client]: { name: 'another-client', version: '99' } } },
    );
    const again = await surface.peer.call(method, {});
    const [first, second, third] = [own, other, again].map(({ result }) => canonical(lasting(result)));
    // A result that changes by itself tells nothing.
    if (first !== third) return skip('the result differs from request to request');
    return expect(first === second, 'the result differs for a client with another name', other);
  },
  unknownExtension: async (surface) =>
    served(
      await surface.peer.call(
        plainMethod(surface),
        {},
        { meta: { [META.capabilities]: { extensions: { 'com.example/parley-unknown': {} } } } },
      ),
      'a request with an unknown extension was refused',
    ),
  dualEra: async (surface) => {
    const { revisions, fresh } = surface.options;
    if (!revisions.some((date) => date <= NEWEST_LEGACY.date)) return skip('the server serves the modern era only');
    const other = await fresh();
    await other.call('initialize', initializeParams(NEWEST_LEGACY.date), { envelope: false });
    const reply = await other.call(plainMethod(surface), {});
    await other.close();
    return served(reply, 'a modern request after initialize was refused');
  },
  firstRequest: async (surface) => {
    const bare = await surface.options.fresh({ bare: true });
    const reply = await bare.call(plainMethod(surface), {});
    await bare.close();
    return served(reply, 'the first request on a new connection was refused');
  },
  unsupportedVersion: async (surface) => refusedWith(await unsupported(surface), -32022, 400),
  supportedList: async (surface) => {
    const reply = await unsupported(surface);
    if (reply.code !== -32022) return skip('there was no error -32022');
    const { supported, requested } = asObject(reply.error?.['data']);
    if (!asList(supported).includes(surface.peer.revision.date))
      return fail(`data.supported does not list ${surface.peer.revision.date}`, reply);
    return expect(requested === UNKNOWN_VERSION, `data.requested is ${JSON.stringify(requested)}`, reply);
  },
  discover: ({ peer }) => {
    const { result } = peer.opening;
    if (!asList(result?.['supportedVersions']).includes(peer.revision.date))
      return fail(`supportedVersions does not list ${peer.revision.date}`, peer.opening);
    if (!['string', 'undefined'].includes(typeof result?.['instructions']))
      return fail('instructions is not a text', peer.opening);
    return expect(isObject(result?.['capabilities']), 'capabilities is missing', peer.opening);
  },
  extensionIds: (surface) => {
    const ids = Object.keys(asObject(surface.capabilities['extensions']));
    if (ids.length === 0) return skip('the server has no extensions');
    const wrong = ids.filter((id) => id.length > LONGEST_KEY || !EXTENSION_KEY.test(id));
    return expect(wrong.length === 0, `wrong ids: ${wrong.join(', ')}`, surface.peer.opening);
  },
  extensionShapes: (surface) => {
    const { extensions } = surface.capabilities;
    if (extensions === undefined) return skip('the server has no extensions');
    const right = isObject(extensions) && Object.values(extensions).every(isObject);
    return expect(right, 'capabilities.extensions is not an object of objects', surface.peer.opening);
  },
  initializeRefusal: async (surface) => {
    const { revisions } = surface.options;
    if (revisions.some((date) => date <= NEWEST_LEGACY.date)) return skip('the server serves the legacy era too');
    const reply = await surface.peer.call('initialize', initializeParams(NEWEST_LEGACY.date), {
      envelope: false,
      headers: { 'MCP-Protocol-Version': undefined, 'Mcp-Method': undefined },
    });
    const named = revisions.some((date) => JSON.stringify(reply.error ?? {}).includes(date));
    return expect(named, 'the error for initialize does not name the supported versions', reply);
  },
  removedMethods: async ({ peer }) => {
    const methods: [string, Json][] = [
      ['ping', {}],
      ['logging/setLevel', { level: 'info' }],
      ['resources/subscribe', { uri: 'parley:none' }],
      ['resources/unsubscribe', { uri: 'parley:none' }],
      ['initialize', initializeParams(NEWEST_LEGACY.date)],
    ];
    const verdicts: Verdict[] = [];
    for (const [method, params] of methods) verdicts.push(refusedWith(await peer.call(method, params), -32601));
    return worst(verdicts);
  },
};

export const BASE_OBSERVATIONS: Readonly<Record<string, Probe>> = {
  jsonrpcVersion: observation({
    about: ({ message }) => isResponse(message) || 'method' in message,
    wrong: ({ message }) => (message['jsonrpc'] === '2.0' ? undefined : 'a message without "jsonrpc": "2.0"'),
  }),
  resultXorError: observation({
    about: ({ message, reply }) =>
      !('method' in message) && ('id' in message || isResponse(message)) && reply.method !== '',
    wrong: ({ message }) => {
      if ('result' in message && 'error' in message) return 'a response has a result and an error';
      return isResponse(message) ? undefined : 'a response has neither a result nor an error';
    },
  }),
  errorShape: observation({
    about: ({ message }) => !('method' in message) && 'error' in message && 'jsonrpc' in message,
    wrong: ({ message }) => {
      const error = message['error'];
      if (!isObject(error)) return 'an error is not an object';
      if (!isInteger(error['code'])) return 'the code of an error is not an integer';
      return typeof error['message'] === 'string' ? undefined : 'an error has no message';
    },
    none: 'no error was sent',
  }),
  utf8: replies(
    // Pages of errors that are not messages may have any encoding.
    (reply) => reply.messages.length > 0 || reply.stream || /json/.test(contentType(reply)),
    (reply) => {
      const charset = /charset="?([^";\s]+)/.exec(contentType(reply))?.[1];
      if (charset !== undefined && !/^utf-?8$/.test(charset)) return `the content type says ${charset}`;
      return reply.utf8 ? undefined : 'the bytes are not UTF-8';
    },
    'nothing was sent',
  ),
  resultType: observation({
    about: ({ message }) => isObject(message['result']) && !('method' in message),
    wrong: ({ message, reply }) =>
      isText(asObject(message['result'])['resultType']) ? undefined : `the result of ${reply.method} has no resultType`,
  }),
  serverInfo: observation({
    about: ({ message }) => isObject(message['result']) && !('method' in message),
    wrong: ({ message, reply }) => {
      const info = asObject(asObject(asObject(message['result'])['_meta'])[META.server]);
      return isText(info['name']) && isText(info['version'])
        ? undefined
        : `the result of ${reply.method} has no serverInfo`;
    },
  }),
  errorCodes: codeRule(
    (code) => !DEFINED_CODES.has(code) && !RETIRED_CODES.has(code) && code >= -32099 && code <= -32000,
    'is reserved',
  ),
  retiredCodes: codeRule((code) => RETIRED_CODES.has(code), 'belongs to earlier revisions'),
  ownCodes: codeRule(
    (code) => !DEFINED_CODES.has(code) && code >= -32768 && code < -32099,
    'is in the range of JSON-RPC',
  ),
  metaKeys: observation({
    wrong: ({ message }) => {
      let wrong: string | undefined;
      eachObject(
        message,
        (object) => {
          for (const key of Object.keys(asObject(object['_meta']))) if (!isMetaKey(key)) wrong ??= key;
        },
        DATA,
      );
      return wrong === undefined ? undefined : `the key ${JSON.stringify(wrong)} in _meta`;
    },
  }),
  undeclaredRequests: observation({
    wrong: ({ message }) =>
      isRequest(message) && CLIENT_FEATURES.has(message['method'])
        ? `${message['method']} was sent to a client without that capability`
        : undefined,
  }),
  serverRequestIds: (surface) => {
    const known = new Set<unknown>();
    for (const { message, reply } of seenBy(surface)) {
      if (!isRequest(message) || surface.earlier.has(reply)) continue;
      if (known.has(message['id'])) return fail(`the server used the id ${JSON.stringify(message['id'])} twice`, reply);
      known.add(message['id']);
    }
    return known.size === 0 ? skip('the server sent no requests') : PASS;
  },
  // This probe passes if nothing was announced. Otherwise chance would decide between a pass and a skip.
  undeclaredChanges: observation({
    wrong: ({ message }, { capabilities }) => {
      const feature = CHANGES[String(message['method'])];
      if (feature === undefined || asObject(capabilities[feature])['listChanged'] === true) return undefined;
      return `${message['method']} was sent, but not declared`;
    },
  }),
  unrequestedChanges: observation({
    wrong: ({ message, reply }) =>
      CHANGES[String(message['method'])] === undefined || reply.method === 'subscriptions/listen'
        ? undefined
        : `${message['method']} was sent without a subscription`,
  }),
  modernFields: observation({
    about: ({ message }) => isObject(message['result']) && !('method' in message),
    wrong: ({ message, reply }) => {
      const field = MODERN_FIELDS.find((each) => each in asObject(message['result']));
      return field === undefined ? undefined : `the result of ${reply.method} has ${field}`;
    },
  }),
  noServerRequests: observation({
    wrong: ({ message }) => (isRequest(message) ? `the server sent the request ${message['method']}` : undefined),
  }),
};
