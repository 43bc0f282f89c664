/** Probes of Streamable HTTP, HTTP+SSE, stdio and WebSocket. */
import { headerOf } from '../../protocol/http/headers.js';
import { LEGACY, NEWEST_LEGACY } from '../../protocol/mcp/revisions/index.js';
import { isObject, type Json, parseJson } from '../json.js';
import { expect, fail, PASS, skip, type Verdict, worst } from '../requirement.js';
import { contentType, isAccepted, isRefused, type Reply } from '../wire/reply.js';
import { isHttpError, type Probe, replies } from './observed.js';
import type { CallOptions } from './peer.js';
import { plainMethod, refusedWith, served } from './probes-base.js';
import type { McpSurface } from './surface.js';

export const NO_SUCH_NAME = 'parley-no-such-name';
export const NO_SUCH_URI = 'parley:no-such-resource';

/** A request with a name in its body, for something that does not exist; undefined if the server has none. */
function namedRequest(surface: McpSurface): [string, Json] | undefined {
  if (surface.declares('tools')) return ['tools/call', { name: NO_SUCH_NAME, arguments: {} }];
  if (surface.declares('prompts')) return ['prompts/get', { name: NO_SUCH_NAME }];
  if (surface.declares('resources')) return ['resources/read', { uri: NO_SUCH_URI }];
  return undefined;
}

const NOTHING_NAMED = 'the server has no tools, prompts or resources';

/** A probe that sends a harmless request with other headers. */
const withHeaders =
  (
    headers: (method: string) => NonNullable<CallOptions['headers']>,
    judge: (reply: Reply, surface: McpSurface) => Verdict,
  ): Probe =>
  async (surface) => {
    const method = plainMethod(surface);
    return judge(await surface.peer.call(method, {}, { headers: headers(method) }), surface);
  };

const withNameHeader =
  (value: (name: string) => string | undefined, judge: (reply: Reply) => Verdict): Probe =>
  async (surface) => {
    const named = namedRequest(surface);
    if (named === undefined) return skip(NOTHING_NAMED);
    const [method, params] = named;
    const name = String(params['name'] ?? params['uri']);
    return judge(await surface.peer.call(method, params, { headers: { 'Mcp-Name': value(name) } }));
  };

const mismatch = (reply: Reply): Verdict => refusedWith(reply, -32020, 400);

const status = (expected: number): ((reply: Reply) => Verdict) => {
  return (reply) =>
    expect(reply.status === expected, `expected the status ${expected}, got ${reply.status ?? reply.failure}`, reply);
};

const encoded = (text: string): string => `=?base64?${Buffer.from(text).toString('base64')}?=`;

/** A raw request to the endpoint of the peer. */
async function raw(surface: McpSurface, method: 'GET' | 'DELETE'): Promise<Reply> {
  const { http, headersFor } = surface.peer;
  const headers = { ...headersFor?.call(surface.peer, ''), Accept: 'text/event-stream', 'Content-Type': undefined };
  return http!.send({ method, headers, headOnly: true });
}

/** A probe for servers that gave a session id. */
const inSession =
  (probe: (surface: McpSurface, session: string) => Promise<Verdict> | Verdict): Probe =>
  async (surface) => {
    const { session } = surface.peer;
    return session === undefined ? skip('the server gives no session ids') : probe(surface, session);
  };

const modernOnly = ({ options }: McpSurface): boolean => options.revisions.every((date) => date > NEWEST_LEGACY.date);

/** A probe for servers without the legacy era. */
const ifModernOnly =
  (probe: Probe): Probe =>
  (surface) =>
    modernOnly(surface) ? probe(surface) : skip('the server serves the legacy era too');

/** A part of a JSON object: brackets alone, a key with its value, or the beginning of an object. */
const FRAGMENT = /^\s*(?:[{}[\]][\s,{}[\]]*$|"[^"]*"\s*:|[{[]\s*")/;
/** The revision that a server assumes for a request without the version header and without a session. */
const ASSUMED = LEGACY.find(({ streamableHttp }) => streamableHttp)!;
const SESSION_LENGTH = 16;
const EXIT_TIME = 1_900;

export const TRANSPORT_PROBES: Readonly<Record<string, Probe>> = {
  notificationStatus: async (surface) => {
    const reply = await surface.peer.notify('notifications/parley-unknown', {});
    if (reply.status !== undefined && reply.status >= 400 && reply.status < 500) return PASS;
    if (reply.status !== 202)
      return fail(`expected the status 202 or 4xx, got ${reply.status ?? reply.failure}`, reply);
    return expect(reply.body === '', 'a notification got a body', reply);
  },
  replyType: async (surface) => {
    const reply = await surface.peer.call(plainMethod(surface), {});
    const type = contentType(reply);
    if (!/^(application\/json|text\/event-stream)\b/.test(type)) return fail(`the content type is "${type}"`, reply);
    if (reply.stream) return PASS;
    return expect(isObject(parseJson(reply.body)), 'the body is not one JSON object', reply);
  },
  methodStatus: async (surface) => status(404)(await surface.peer.call('parley/unknown', {})),
  getRefused: ifModernOnly(async (surface) => status(405)(await raw(surface, 'GET'))),
  deleteRefused: ifModernOnly(async (surface) => status(405)(await raw(surface, 'DELETE'))),
  noSessions: async (surface) => {
    const reply = await surface.peer.call(plainMethod(surface), {}, { headers: { 'Mcp-Session-Id': 'parley-none' } });
    const minted = surface.peer.log.find((each) => headerOf(each.headers, 'mcp-session-id') !== undefined);
    if (minted !== undefined) return fail('a modern request got a session id', minted);
    return served(reply, 'a request with a session id was refused');
  },
  lastEventIgnored: async (surface) => {
    const headers = { 'Last-Event-ID': 'parley-1' };
    return served(await surface.peer.call(plainMethod(surface), {}, { headers }), 'Last-Event-ID was not ignored');
  },
  headerlessRequest: ifModernOnly(async (surface) => {
    const headers = { 'MCP-Protocol-Version': undefined, 'Mcp-Method': undefined };
    const reply = await surface.peer.call(plainMethod(surface), {}, { envelope: false, headers });
    return expect(isRefused(reply), `a request without version and metadata got ${reply.status}`, reply);
  }),
  badAccept: withHeaders(() => ({ Accept: 'text/html' }), status(406)),
  badContentType: withHeaders(() => ({ 'Content-Type': 'text/plain' }), status(415)),
  handlerErrorStatus: async (surface) => {
    const named = namedRequest(surface);
    if (named === undefined) return skip(NOTHING_NAMED);
    return status(200)(await surface.peer.call(...named));
  },
  missingMethodHeader: withHeaders(() => ({ 'Mcp-Method': undefined }), mismatch),
  otherMethodHeader: withHeaders(() => ({ 'Mcp-Method': 'parley/other' }), mismatch),
  missingVersionHeader: withHeaders(() => ({ 'MCP-Protocol-Version': undefined }), mismatch),
  otherVersionHeader: withHeaders(() => ({ 'MCP-Protocol-Version': NEWEST_LEGACY.date }), mismatch),
  headerNameCase: withHeaders(
    (method) => ({ 'Mcp-Method': undefined, 'mCP-mETHOD': method }),
    (reply) => served(reply, 'a header name in other case was not found'),
  ),
  headerValueCase: withHeaders((method) => ({ 'Mcp-Method': method.toUpperCase() }), mismatch),
  missingNameHeader: withNameHeader(() => undefined, mismatch),
  otherNameHeader: withNameHeader(() => 'parley-other-name', mismatch),
  encodedName: withNameHeader(encoded, (reply) =>
    expect(reply.code !== -32020 && reply.status !== 400, 'the encoded name was not decoded', reply),
  ),
  literalEncoding: withNameHeader((name) => encoded(name).replace('base64', 'BASE64'), mismatch),
  brokenEncoding: withNameHeader(() => '=?base64?%%%?=', status(400)),
  bareNotification: async ({ peer }) =>
    expect(
      (await peer.notify('notifications/parley-unknown', {}, { headers: { 'Mcp-Method': undefined } })).code !== -32020,
      'a notification without Mcp-Method was refused',
      peer.log.at(-1),
    ),
  getStream: async (surface) => {
    const reply = await raw(surface, 'GET');
    const right = reply.status === 405 || (reply.status === 200 && reply.stream);
    return expect(right, `expected an event stream or 405, got ${reply.status ?? reply.failure}`, reply);
  },
  // Sends its own request, because other probes leave out the header with the version.
  primingEvent: async (surface) => {
    const reply = await surface.peer.call(plainMethod(surface), {});
    if (!reply.events.some(({ id }) => id !== undefined)) return skip('the server gives no event ids');
    const [first] = reply.events;
    return expect(first?.id !== undefined && first.data === '', 'the first event is not a priming event', reply);
  },
  sessionAscii: inSession(({ peer }, session) =>
    expect(/^[\x21-\x7e]+$/.test(session), 'the session id has other characters', peer.opening),
  ),
  sessionGuess: inSession(async ({ peer, options }, session) => {
    if (session.length < SESSION_LENGTH) return fail(`the session id has ${session.length} characters`, peer.opening);
    const other = await options.fresh();
    await other.close();
    return expect(other.session !== session, 'two sessions have the same id', other.opening);
  }),
  missingSession: inSession(async ({ peer }) => {
    const reply = await peer.call('ping', undefined, { headers: { 'Mcp-Session-Id': undefined } });
    return reply.result === undefined ? status(400)(reply) : skip('the server also serves requests without a session');
  }),
  unknownSession: inSession(async ({ peer }) =>
    status(404)(
      await peer.call('ping', undefined, {
        headers: { 'Mcp-Session-Id': '00000000-0000-4000-8000-000000000000' },
      }),
    ),
  ),
  endedSession: inSession(async ({ options }) => {
    const other = await options.fresh();
    const ended = await other.http!.send({ method: 'DELETE', headers: other.headersFor!('') });
    if (!isAccepted(ended)) return skip('the server does not end sessions');
    return status(404)(await other.call('ping'));
  }),
  deleteSession: inSession(async ({ options }) => {
    const other = await options.fresh();
    const reply = await other.http!.send({ method: 'DELETE', headers: other.headersFor!('') });
    return expect(isAccepted(reply) || reply.status === 405, `DELETE got the status ${reply.status}`, reply);
  }),
  badVersionHeader: async ({ peer }) => {
    const verdicts: Verdict[] = [];
    for (const version of ['1999-01-01', 'parley'])
      verdicts.push(status(400)(await peer.call('ping', undefined, { headers: { 'MCP-Protocol-Version': version } })));
    return worst(verdicts);
  },
  noVersionHeader: async ({ peer, options }) => {
    const known = peer.session !== undefined || options.revisions.includes(ASSUMED.date);
    if (!known) return skip(`the server has no sessions, and does not speak the version that is assumed`);
    return served(
      await peer.call('ping', undefined, { headers: { 'MCP-Protocol-Version': undefined } }),
      'a request without the version header was refused',
    );
  },
  stdioExit: async ({ options }) => {
    const other = await options.fresh();
    const time = await other.close();
    return expect(
      time !== undefined && time < EXIT_TIME,
      'the program did not end after the end of its stdin',
      other.opening,
    );
  },
};

const MOVED: ReadonlySet<number | undefined> = new Set([301, 302, 303, 307, 308, 405]);

export const TRANSPORT_OBSERVATIONS: Readonly<Record<string, Probe>> = {
  postEndpoint: replies(
    ({ sent }) => isObject(sent),
    ({ status: got }) => (MOVED.has(got) ? `a POST to the endpoint got the status ${got}` : undefined),
    'nothing was posted',
  ),
  streamEnds: replies(
    (reply) => reply.stream && reply.response !== undefined && reply.method !== 'subscriptions/listen',
    (reply) => (reply.ended ? undefined : `the stream of ${reply.method} stayed open after the response`),
    'no request was answered with a stream',
  ),
  accelBuffering: replies(
    (reply) => reply.stream,
    ({ headers }) => (headerOf(headers, 'x-accel-buffering') === 'no' ? undefined : 'X-Accel-Buffering is missing'),
    'no request was answered with a stream',
  ),
  errorIds: replies(
    // A server that refuses a request before it reads the body does not know the id.
    ({ error, response, sent, status }) =>
      error !== undefined &&
      status !== 401 &&
      status !== 403 &&
      !isHttpError(response!, { status }) &&
      isObject(sent) &&
      'id' in sent,
    ({ response, sent }) =>
      response?.['id'] === (sent as Json)['id'] ? undefined : `an error has the id ${JSON.stringify(response?.['id'])}`,
    'no error was sent',
  ),
  eventIds: ({ peer }) => {
    const known = new Set<string>();
    for (const reply of peer.log) {
      // A further initialize begins another session.
      if (reply.method === 'initialize' && reply !== peer.opening) continue;
      for (const { id } of reply.events) {
        if (id === undefined) continue;
        if (known.has(id)) return fail(`the event id ${JSON.stringify(id)} was used twice`, reply);
        known.add(id);
      }
    }
    return known.size === 0 ? skip('the server gives no event ids') : PASS;
  },
  sseEndpoint: ({ peer }) => {
    const first = peer.sse?.events[0];
    if (first?.event !== 'endpoint') return fail(`the first event is ${first?.event}`, peer.opening);
    return expect(peer.sse?.sameOrigin === true, 'the address for messages is at another origin', peer.opening);
  },
  sseMessages: ({ peer }) => {
    const wrong = peer.sse?.events.find(
      ({ event, data }) => event !== 'endpoint' && (event !== 'message' || !isObject(parseJson(data))),
    );
    return expect(wrong === undefined, `an event named ${wrong?.event} with ${wrong?.data.slice(0, 80)}`, peer.opening);
  },
  ssePost: replies(
    ({ method }) => method === 'ping',
    (reply) => (isAccepted(reply) ? undefined : `a message got the status ${reply.status}`),
    'no message was posted',
  ),
  stdioLines: ({ peer }) => {
    const stray = peer.stray?.().find((line) => FRAGMENT.test(line));
    if (stray !== undefined)
      return fail(`a part of a message on a line of its own: ${stray.slice(0, 80)}`, peer.opening);
    const broken = peer.log.find((reply) => reply.messages.includes(undefined));
    return expect(broken === undefined, 'a line is not JSON', broken);
  },
  textFrames: ({ peer }) => {
    const binary = peer.stray?.()[0];
    if (binary !== undefined) return fail(`a frame is not text: ${binary.slice(0, 80)}`, peer.opening);
    const broken = peer.log.find((reply) => reply.messages.includes(undefined));
    return expect(broken === undefined, 'a frame is not JSON', broken);
  },
  stdioStray: ({ peer }) => {
    const stray = peer.stray?.().find((line) => !FRAGMENT.test(line));
    return expect(stray === undefined, `a line on stdout is not a message: ${stray?.slice(0, 80)}`, peer.opening);
  },
};
