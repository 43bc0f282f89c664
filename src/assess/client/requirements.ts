/** Requirements of MCP clients that a server can observe. The letters are the revisions, as for servers. */
import { isRevisionDate, REVISIONS, type Revision, revisionOf } from '../../protocol/mcp/revisions/index.js';
import { asList, asObject, isObject, isText, type Json } from '../json.js';
import { HTTP, row, STDIO } from '../mcp/row.js';
import {
  expect,
  fail,
  PASS,
  type Requirement,
  skip,
  type Transport,
  type Verdict,
  versionIndexes,
} from '../requirement.js';
import { REQUEST_STATE } from './scripted-server.js';
import { type Heard, heardEvidence, type Transcript } from './transcript.js';

type Check = (transcript: Transcript) => Verdict;

const PREFIX = 'io.modelcontextprotocol';
const BASE = 'Base protocol';
const LIFE = 'Versions and life cycle';
const TRANSPORT = 'Transport';
const UTILITIES = 'Utilities';

/** Fails with the first message for which `wrong` gives a reason; skips if there are none. */
const each = (heard: readonly Heard[], what: string, wrong: (each: Heard) => string | undefined): Verdict => {
  for (const one of heard) {
    const reason = wrong(one);
    if (reason !== undefined) return fail(reason, heardEvidence(one));
  }
  return heard.length === 0 ? skip(`the client sent no ${what}`) : PASS;
};

const isId = (id: unknown): boolean => typeof id === 'string' || Number.isInteger(id);
const params = ({ message }: Heard): Json => asObject(asObject(message)['params']);
const metaOf = (heard: Heard): Json => asObject(params(heard)['_meta']);
const methodOf = ({ message }: Heard): unknown => asObject(message)['method'];
const header = ({ http }: Heard, name: string): string | undefined => http?.headers[name];
const posts = ({ heard }: Transcript): Heard[] => heard.filter(({ http }) => http?.method === 'POST');
/** Everything after the handshake. */
const later = (transcript: Transcript): Heard[] => {
  const first = transcript.heard.findIndex((heard) => methodOf(heard) === 'initialize');
  return transcript.heard.slice(first + 1);
};
const decoded = (value: string | undefined): string | undefined => {
  const [, packed] = /^=\?base64\?(.*)\?=$/.exec(value ?? '') ?? [];
  return packed === undefined ? value : Buffer.from(packed, 'base64').toString('utf8');
};

/** The answers to a question of the server. */
const answers = (transcript: Transcript, method: string, judge: (answer: Json) => string | undefined): Verdict => {
  for (const question of transcript.questions.values()) {
    if (question.method !== method) continue;
    const [answer] = question.answers;
    if (answer === undefined) return fail(`${method} was not answered`);
    const reason = judge(answer);
    return reason === undefined ? PASS : fail(reason, heardEvidence({ message: answer, open: [] }));
  }
  return skip('the client opened no stream for questions, or did not declare the capability');
};

const NAMED: ReadonlySet<unknown> = new Set(['tools/call', 'prompts/get', 'resources/read']);
/** Methods of capabilities that the scripted server does not declare. */
const UNDECLARED = /^(prompts|resources|logging|completion)\//;

const CHECKS: Readonly<Record<string, Check>> = {
  messages: ({ heard }) =>
    each(
      heard.filter(({ message }) => message !== undefined),
      'messages',
      ({ message }) => {
        for (const one of Array.isArray(message) ? message : [message]) {
          if (!isObject(one) || one['jsonrpc'] !== '2.0') return 'a message is not of JSON-RPC 2.0';
          if (one['method'] !== undefined && one['id'] !== undefined && !isId(one['id']))
            return 'the id of a request is neither a string nor an integer';
        }
        return undefined;
      },
    ),
  uniqueIds: ({ requests }) => {
    const seen = new Set<string>();
    return each(requests, 'requests', ({ message }) => {
      const { id, method } = asObject(message);
      // A new handshake begins a new session.
      if (method === 'initialize') seen.clear();
      const key = JSON.stringify(id);
      if (seen.has(key)) return `the id ${key} was used twice`;
      seen.add(key);
      return undefined;
    });
  },
  openIds: ({ requests }) =>
    each(requests, 'requests', ({ message, open }) =>
      open.includes(asObject(message)['id']) ? 'the id of a request that has no answer yet was used again' : undefined,
    ),
  responses: ({ messages, questions }) =>
    each(
      messages.filter(({ message }) => message['method'] === undefined),
      'responses',
      ({ message }) => {
        const { id, result, error } = asObject(message);
        if (!questions.has(id)) return 'the id of a response belongs to no request of the server';
        if ((result === undefined) === (error === undefined)) return 'a response has both result and error, or neither';
        if (error === undefined) return undefined;
        const right = Number.isInteger(asObject(error)['code']) && typeof asObject(error)['message'] === 'string';
        return right ? undefined : 'an error has no number as code, or no message';
      },
    ),
  notAnswered: ({ questions }) => {
    const twice = [...questions.values()].find((question) => question.answers.length > 1);
    return expect(twice === undefined, `${twice?.method} was answered more than once`);
  },
  noBatch: ({ heard }) =>
    each(
      heard.filter(({ message }) => message !== undefined),
      'messages',
      ({ message }) => (Array.isArray(message) ? 'several messages were sent as one' : undefined),
    ),
  firstInitialize: ({ requests }) => {
    const [first] = requests;
    if (first === undefined) return skip('the client sent no requests');
    const { protocolVersion, capabilities, clientInfo } = params(first);
    if (methodOf(first) !== 'initialize') return fail('the first request is not initialize', heardEvidence(first));
    const { name, version } = asObject(clientInfo);
    const right = isText(protocolVersion) && isObject(capabilities) && isText(name) && isText(version);
    return expect(right, 'protocolVersion, capabilities or clientInfo is missing', heardEvidence(first));
  },
  initialized: (transcript) => {
    const heard = later(transcript);
    const at = heard.findIndex((one) => methodOf(one) === 'notifications/initialized');
    return expect(at >= 0, 'notifications/initialized was not sent', heard[0] && heardEvidence(heard[0]));
  },
  orderly: (transcript) => {
    const heard = later(transcript);
    const at = heard.findIndex((one) => methodOf(one) === 'notifications/initialized');
    const early = heard.slice(0, at < 0 ? undefined : at).find((one) => {
      const method = methodOf(one);
      return method !== undefined && method !== 'ping' && method !== 'initialize';
    });
    return expect(early === undefined, 'a request before notifications/initialized', early && heardEvidence(early));
  },
  knownVersion: ({ initialize }) => {
    const { protocolVersion } = asObject(initialize?.['params']);
    return expect(
      revisionOf(protocolVersion) !== undefined,
      `the offered version ${String(protocolVersion)} is not one of the protocol`,
    );
  },
  declaredOnly: ({ requests }) =>
    each(requests, 'requests', (heard) =>
      UNDECLARED.test(String(methodOf(heard)))
        ? `${String(methodOf(heard))} needs a capability that the server did not declare`
        : undefined,
    ),
  initializeNotCancelled: (transcript) => {
    const id = transcript.initialize?.['id'];
    return each(transcript.messages, 'messages', (heard) =>
      methodOf(heard) === 'notifications/cancelled' && params(heard)['requestId'] === id
        ? 'initialize was cancelled'
        : undefined,
    );
  },
  ping: (transcript) =>
    answers(transcript, 'ping', ({ result }) =>
      isObject(result) && Object.keys(result).every((key) => key === '_meta')
        ? undefined
        : 'ping was not answered with an empty result',
    ),
  unknownMethod: (transcript) =>
    answers(transcript, 'parley/unknown', ({ error }) =>
      asObject(error)['code'] === -32601 ? undefined : 'an unknown method was not answered with -32601',
    ),
  roots: (transcript) =>
    answers(transcript, 'roots/list', ({ result }) => {
      const { roots } = asObject(result);
      const right = Array.isArray(roots) && roots.every((root) => String(asObject(root)['uri']).startsWith('file://'));
      return right ? undefined : 'roots/list was not answered with a list of file:// URIs';
    }),
  requestMeta: ({ requests }) =>
    each(requests, 'requests', (heard) => {
      const meta = metaOf(heard);
      const right = isRevisionDate(meta[`${PREFIX}/protocolVersion`]) && isObject(meta[`${PREFIX}/clientCapabilities`]);
      return right ? undefined : '_meta has no protocolVersion or no clientCapabilities';
    }),
  clientInfo: ({ requests }) =>
    each(requests, 'requests', (heard) =>
      isText(asObject(metaOf(heard)[`${PREFIX}/clientInfo`])['name']) ? undefined : '_meta has no clientInfo',
    ),
  accept: (transcript) =>
    each(posts(transcript), 'POST requests', (heard) => {
      const accept = header(heard, 'accept') ?? '';
      if (!accept.includes('application/json') || !accept.includes('text/event-stream'))
        return `Accept is ${JSON.stringify(accept)}`;
      return header(heard, 'content-type')?.startsWith('application/json')
        ? undefined
        : 'Content-Type is not application/json';
    }),
  noResponses: ({ messages }) =>
    each(messages, 'messages', (heard) => (methodOf(heard) === undefined ? 'a response was sent' : undefined)),
  versionHeader: (transcript) =>
    each(posts(transcript), 'POST requests', (heard) => {
      const named = metaOf(heard)[`${PREFIX}/protocolVersion`];
      return header(heard, 'mcp-protocol-version') === named ? undefined : 'MCP-Protocol-Version is not that of _meta';
    }),
  methodHeader: (transcript) =>
    each(posts(transcript), 'POST requests', (heard) => {
      if (asObject(heard.message)['id'] === undefined) return undefined;
      if (header(heard, 'mcp-method') !== methodOf(heard)) return 'Mcp-Method is not the method';
      if (!NAMED.has(methodOf(heard))) return undefined;
      const { name, uri } = params(heard);
      return decoded(header(heard, 'mcp-name')) === (name ?? uri) ? undefined : 'Mcp-Name is not the name';
    }),
  session: (transcript) =>
    each(
      later(transcript).filter(({ http }) => http !== undefined),
      'requests after the handshake',
      (heard) => {
        if (methodOf(heard) === 'initialize') return undefined;
        return transcript.sessions.has(header(heard, 'mcp-session-id') ?? '')
          ? undefined
          : 'Mcp-Session-Id is missing or wrong';
      },
    ),
  negotiatedHeader: (transcript) =>
    each(
      later(transcript).filter((heard) => heard.http !== undefined && methodOf(heard) !== 'initialize'),
      'requests after the handshake',
      (heard) =>
        header(heard, 'mcp-protocol-version') === transcript.revision?.date
          ? undefined
          : 'MCP-Protocol-Version is not the negotiated version',
    ),
  goodbye: ({ heard }) =>
    expect(
      heard.some(({ http }) => http?.method === 'DELETE'),
      'the session was not ended with DELETE',
    ),
  getAccept: ({ heard }) =>
    each(
      heard.filter(({ http }) => http?.method === 'GET'),
      'GET requests',
      (one) => (header(one, 'accept')?.includes('text/event-stream') ? undefined : 'Accept has no text/event-stream'),
    ),
  onlyMessages: ({ garbage }) => expect(garbage.length === 0, 'a line is not JSON'),
  cursor: ({ requests, cursors }) =>
    each(
      requests.filter((heard) => params(heard)['cursor'] !== undefined),
      'cursor',
      (heard) => (cursors.has(params(heard)['cursor']) ? undefined : 'a cursor is not the one of the server'),
    ),
  progressToken: ({ requests }) => {
    const tokens = requests.filter((heard) => metaOf(heard)['progressToken'] !== undefined);
    const used = new Set<unknown>();
    return each(tokens, 'progress token', (heard) => {
      const token = metaOf(heard)['progressToken'];
      if (!isId(token)) return 'a progress token is neither a string nor an integer';
      if (used.has(token) && heard.open.length > 0) return 'a progress token was used twice';
      used.add(token);
      return undefined;
    });
  },
  cancelsOwn: ({ messages, requests }) => {
    const ids = new Set(requests.map(({ message }) => message['id']));
    const cancelled = messages.filter((heard) => methodOf(heard) === 'notifications/cancelled');
    return each(cancelled, 'cancellation', (heard) =>
      ids.has(params(heard)['requestId']) ? undefined : 'a cancellation names no request of the client',
    );
  },
  requestState: ({ requests }) =>
    each(
      requests.filter(
        (heard) => params(heard)['requestState'] !== undefined || params(heard)['inputResponses'] !== undefined,
      ),
      'answer to a question',
      (heard) => {
        if (params(heard)['requestState'] !== REQUEST_STATE) return 'requestState did not come back exactly';
        const { answer } = asObject(params(heard)['inputResponses']);
        const { action } = asObject(answer);
        return asList(['accept', 'decline', 'cancel']).includes(action) ? undefined : 'inputResponses has no answer';
      },
    ),
};

/** The transports of the scripted server. */
const ANY: readonly Transport[] = ['http', 'sse', 'stdio'];

// biome-ignore format: one requirement per line
export const CLIENT_REQUIREMENTS: readonly Requirement[] = [
  row('BASE-01', 'MUST', 'A-E', ANY, BASE, 'messages', 'basic', 'Messages follow JSON-RPC 2.0; ids are strings or integers.', 'Send jsonrpc 2.0 and an id.'),
  row('BASE-02', 'MUST', 'A-D', ANY, BASE, 'uniqueIds', 'basic', 'An id is used once in a session.', 'Count the ids.'),
  row('BASE-03', 'MUST', 'E', ANY, BASE, 'openIds', 'basic', 'An id differs from those of requests without an answer.', 'Count the ids.'),
  row('BASE-04', 'MUST', 'A-D', ANY, BASE, 'responses', 'basic', 'A response has the id of the request, and a result or an error.', 'Copy the id.'),
  row('BASE-06', 'MUST', 'A-D', ANY, BASE, 'notAnswered', 'basic', 'A request is answered once, a notification never.', 'Answer requests only.'),
  row('BASE-09', 'MUST', 'C-E', ANY, BASE, 'noBatch', 'basic/transports', 'Each message is sent alone.', 'Send no arrays.'),
  row('LIFE-01', 'MUST', 'A-D', ANY, LIFE, 'firstInitialize', 'basic/lifecycle', 'The first request is initialize with protocolVersion, capabilities and clientInfo.', 'Begin with the handshake.'),
  row('LIFE-03', 'MUST', 'A-D', ANY, LIFE, 'initialized', 'basic/lifecycle', 'notifications/initialized follows the handshake.', 'Send the notification.'),
  row('LIFE-04', 'SHOULD', 'A-D', ANY, LIFE, 'orderly', 'basic/lifecycle', 'Nothing but ping is sent before the handshake is over.', 'Wait for the response.'),
  row('LIFE-06', 'MUST', 'A-D', ANY, LIFE, 'knownVersion', 'basic/lifecycle', 'The offered version is one of the protocol.', 'Offer a published revision.'),
  row('LIFE-09', 'MUST', 'A-E', ANY, LIFE, 'declaredOnly', 'basic/lifecycle', 'Only capabilities that the server declared are used.', 'Read the capabilities first.'),
  row('LIFE-10', 'MUST', 'A-D', ANY, LIFE, 'initializeNotCancelled', 'basic/utilities/cancellation', 'initialize is never cancelled.', 'Close the connection instead.'),
  row('LIFE-11', 'MUST', 'A-D', ANY, UTILITIES, 'ping', 'basic/utilities/ping', 'ping is answered with an empty result.', 'Answer ping.'),
  row('BASE-20', 'MUST', 'A-D', ANY, BASE, 'unknownMethod', 'basic', 'An unknown method is answered with -32601.', 'Answer with -32601.'),
  row('ROOT-03', 'MUST', 'A-D', ANY, UTILITIES, 'roots', 'client/roots', 'A client with roots lists them as file:// URIs.', 'Answer roots/list.'),
  row('META-01', 'MUST', 'E', ANY, LIFE, 'requestMeta', 'basic', 'Each request has protocolVersion and clientCapabilities in _meta.', 'Add them to each request.'),
  row('META-02', 'SHOULD', 'E', ANY, LIFE, 'clientInfo', 'basic', 'Each request has clientInfo in _meta.', 'Add it to each request.'),
  row('HC-01', 'MUST', 'B-E', HTTP, TRANSPORT, 'accept', 'basic/transports', 'Each POST accepts JSON and event streams, and sends JSON.', 'Set Accept and Content-Type.'),
  row('HC-02', 'MUST', 'E', HTTP, TRANSPORT, 'noResponses', 'basic/transports', 'Only requests and notifications are posted.', 'Send no responses.'),
  row('HDR-01', 'MUST', 'E', HTTP, TRANSPORT, 'versionHeader', 'basic/transports', 'MCP-Protocol-Version is the version of _meta.', 'Copy the version into the header.'),
  row('HDR-02', 'MUST', 'E', HTTP, TRANSPORT, 'methodHeader', 'basic/transports', 'Mcp-Method and Mcp-Name repeat the method and the name.', 'Copy them into the headers.'),
  row('HLC-01', 'MUST', 'B-D', HTTP, TRANSPORT, 'session', 'basic/transports', 'Mcp-Session-Id is on every request after the handshake.', 'Repeat the header.'),
  row('HLC-03', 'SHOULD', 'B-D', HTTP, TRANSPORT, 'goodbye', 'basic/transports', 'The session is ended with DELETE.', 'Send DELETE when done.'),
  row('HLC-04', 'MUST', 'C,D', HTTP, TRANSPORT, 'negotiatedHeader', 'basic/transports', 'MCP-Protocol-Version is the negotiated version after the handshake.', 'Set the header.'),
  row('HLC-05', 'MUST', 'B-D', HTTP, TRANSPORT, 'getAccept', 'basic/transports', 'A GET accepts event streams.', 'Set Accept.'),
  row('STD-03', 'MUST', 'A-E', STDIO, TRANSPORT, 'onlyMessages', 'basic/transports', 'Only messages are written to the server, one per line.', 'Write nothing else.'),
  row('STD-04', 'MUST', 'E', STDIO, TRANSPORT, 'noResponses', 'basic/transports', 'No responses are written to the server.', 'Send no responses.'),
  row('PAG-01', 'MUST', 'A-E', ANY, UTILITIES, 'cursor', 'server/utilities/pagination', 'Cursors come back exactly as the server gave them.', 'Do not parse cursors.'),
  row('PRG-01', 'MUST', 'A-E', ANY, UTILITIES, 'progressToken', 'basic/utilities/progress', 'Progress tokens are strings or integers, each used once at a time.', 'Count the tokens.'),
  row('CAN-01', 'MUST', 'A-D', ANY, UTILITIES, 'cancelsOwn', 'basic/utilities/cancellation', 'Only own requests are cancelled.', 'Name the id of the request.'),
  row('MRTR-10', 'MUST', 'E', ANY, UTILITIES, 'requestState', 'basic/patterns/mrtr', 'The answer to a question repeats requestState exactly.', 'Copy requestState.'),
];

export const CLIENT_CHECKS = CHECKS;

/** The verdict on one requirement; undefined if it does not apply to the revision or transport. */
export function clientVerdict({ probe, versions, over }: Requirement, transcript: Transcript): Verdict | undefined {
  const { revision, transport } = transcript;
  if (probe === undefined || revision === undefined || !over.includes(transport)) return undefined;
  if (!versionIndexes(versions).includes(indexOf(revision))) return undefined;
  return CHECKS[probe]!(transcript);
}

const indexOf = (revision: Revision): number => REVISIONS.indexOf(revision);
