/** Probes of errors and of the form of messages, and of everything that arrived. */
import { headerOf } from '../../protocol/http/headers.js';
import { disclosesInside } from '../disclosure.js';
import { asList, asObject, eachObject, isObject, isText, type Json } from '../json.js';
import { expect, fail, PASS, skip } from '../requirement.js';
import type { Reply } from '../wire/reply.js';
import type { A2aPeer } from './peer.js';
import { errorInfo } from './peer.js';
import { type A2aProbe, type Probes, refused, said, sameAnswer, UNKNOWN, unknownTask } from './probe.js';

const rpcRefusal =
  (body: unknown, code: number): A2aProbe =>
  async ({ peer }) => {
    const answer = typeof body === 'string' ? await peer.text(body) : await peer.rpc(body);
    return expect(answer.code === code, `expected the error ${code}, ${said(answer)}`, answer);
  };

/** Whether one of the alternatives of `security` on the card needs no scheme. */
const isAnonymous = (alternative: Json): boolean =>
  Object.keys(isObject(alternative['schemes']) ? alternative['schemes'] : alternative).length === 0;

const BROKEN_JSON = '{"jsonrpc": "2.0", ';
const DOMAIN = 'a2a-protocol.org';

export const FORMAT_PROBES: Probes = {
  authentication: async ({ peer }) => {
    const alternatives = asList(peer.card['securityRequirements'] ?? peer.card['security']).map(asObject);
    const schemes = asList(asObject(peer.card['authentication'])['schemes']).length > 0;
    if (alternatives.length === 0 && !schemes) return skip('the card declares no security');
    if (alternatives.some(isAnonymous)) return skip('the card lets callers stay anonymous');
    const { reply, grpc } = await peer.call('get', { id: UNKNOWN }, { credentials: false });
    const right =
      grpc === undefined
        ? reply.status === 401 && headerOf(reply.headers, 'www-authenticate') !== undefined
        : grpc === 'UNAUTHENTICATED';
    return expect(right, `a request without credentials got the status ${grpc ?? reply.status}`, reply);
  },
  restErrors: async (surface) => {
    const { reply } = await unknownTask(surface);
    const error = asObject(asObject(reply.messages[0])['error']);
    const info = errorInfo(error);
    if (error['code'] !== reply.status || !isText(error['status']) || !isText(error['message']))
      return fail('the error has no code, status or message', reply);
    return expect(isText(info?.['reason']) && info['domain'] === DOMAIN, 'the error has no ErrorInfo', reply);
  },
  rpcErrorInfo: async (surface) => {
    const { reply } = await unknownTask(surface);
    if (reply.error === undefined) return skip('there was no error');
    return expect(isText(errorInfo(reply.error)?.['reason']), 'the error has no ErrorInfo', reply);
  },
  grpcErrorInfo: async (surface) => {
    const { reply } = await unknownTask(surface);
    const info = errorInfo(asObject(asObject(reply.messages.at(-1))['error']));
    return expect(isText(info?.['reason']) && info['domain'] === DOMAIN, 'the status has no ErrorInfo', reply);
  },
  grpcStatus: async (surface) => {
    const answer = await unknownTask(surface);
    return expect(answer.grpc === 'NOT_FOUND', `an unknown task got the status ${answer.grpc}`, answer);
  },
  restStatus: async (surface) => {
    const { reply } = await unknownTask(surface);
    return expect(reply.status === 404, `an unknown task got the status ${reply.status}`, reply);
  },
  parseError: rpcRefusal(BROKEN_JSON, -32700),
  parseErrorId: async ({ peer }) => {
    const { reply } = await peer.text(BROKEN_JSON);
    if (reply.response === undefined) return skip('there was no response');
    return expect(reply.response['id'] === null, 'the id of the response is not null', reply);
  },
  notRequest: rpcRefusal({ jsonrpc: '2.0', id: 1, metod: 'x' }, -32600),
  unknownMethod: rpcRefusal({ jsonrpc: '2.0', id: 1, method: 'parley/unknown', params: {} }, -32601),
  invalidParams: async ({ peer }) => {
    const answer = await peer.call('get');
    return expect(answer.code === -32602, `a request for a task without an id ${said(answer)}`, answer);
  },
  batch: async ({ peer }) => {
    const answer = await peer.rpc([{ jsonrpc: '2.0', id: 1, method: 'parley/unknown' }]);
    // JSON-RPC itself has batches.
    const right = answer.code === -32600 || Array.isArray(answer.reply.messages[0]);
    return expect(right, `expected the error -32600, ${said(answer)}`, answer);
  },
  trailingSlash: async ({ peer }) => {
    const url = new URL(peer.url, peer.http.url);
    if (url.pathname.endsWith('/')) return skip('the address ends with a slash');
    url.pathname += '/';
    const answer = await peer.rpc({ jsonrpc: '2.0', id: 1, method: 'parley/unknown', params: {} }, { url });
    return expect(answer.code === -32601, `a request to the address with a slash ${said(answer)}`, answer);
  },
  otherMediaType: sameAnswer({ headers: { 'Content-Type': 'application/a2a+json' } }),
  emptyBody: async ({ peer }) => refused(await peer.call('cancel', { id: UNKNOWN }, { bodyless: true }), -32001, peer),
  ids: async ({ peer }) => {
    for (const id of ['parley-id', 0, 7]) {
      const { reply } = await peer.rpc({ jsonrpc: '2.0', id, method: 'parley/unknown', params: {} });
      if (reply.response?.['id'] !== id)
        return fail(`the id ${JSON.stringify(id)} came back as ${JSON.stringify(reply.response?.['id'])}`, reply);
    }
    return PASS;
  },
};

/** The values of these keys, or the keys in them, belong to the agent and its extensions. */
const FREE: ReadonlySet<string> = new Set([
  ...['metadata', 'data', 'params', 'header'],
  ...['securitySchemes', 'security', 'securityRequirements', 'scopes'],
]);

/** An observation of every object that arrived: the first wrong value fails, no value at all skips. */
const everywhere =
  (what: string, find: (object: Json, peer: A2aPeer) => unknown, right: (value: string) => boolean): A2aProbe =>
  ({ peer }) => {
    let seen = 0;
    for (const reply of peer.log) {
      let wrong: unknown;
      const visit = (object: Json): void => {
        const value = find(object, peer);
        if (value === undefined) return;
        seen++;
        if (!right(String(value))) wrong ??= value;
      };
      eachObject(reply.messages, visit, FREE);
      if (wrong !== undefined) return fail(`the ${what} ${String(wrong)}`, reply);
    }
    return seen === 0 ? skip(`no ${what} was sent`) : PASS;
  };

const state = ({ status }: Json): unknown => asObject(status)['state'];
const role = ({ role: value, messageId }: Json): unknown => (messageId === undefined ? undefined : value);
const time = ({ status }: Json): unknown => asObject(status)['timestamp'];

const STATES = /^(submitted|working|input-required|completed|canceled|failed|rejected|auth-required|unknown)$/;

export const FORMAT_OBSERVATIONS: Probes = {
  camelCase: ({ peer }) => {
    for (const reply of peer.log) {
      let wrong: string | undefined;
      const visit = (value: unknown): void => {
        if (!isObject(value) && !Array.isArray(value)) return;
        for (const [key, inner] of Object.entries(value)) {
          if (/[a-z]_[a-z]/.test(key)) wrong ??= key;
          if (!FREE.has(key)) visit(inner);
        }
      };
      for (const message of reply.messages) visit(message);
      if (wrong !== undefined) return fail(`the key ${wrong}`, reply);
    }
    return PASS;
  },
  stateNames: everywhere('state', state, (value) => /^TASK_STATE_[A-Z_]+$/.test(value)),
  oldStateNames: everywhere('state', state, (value) => STATES.test(value)),
  roleNames: everywhere('role', role, (value) => value === 'ROLE_USER' || value === 'ROLE_AGENT'),
  oldRoleNames: everywhere(
    'role',
    ({ role: value }) => value,
    (value) => value === 'user' || value === 'agent',
  ),
  timestamps: everywhere('timestamp', time, (value) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(value)),
  partKinds: everywhere(
    'kind of a part',
    ({ text, file, kind, type }, { version }) => {
      if (typeof text !== 'string' && !isObject(file)) return undefined;
      return (version === '0.1' ? type : kind) ?? 'missing';
    },
    (value) => /^(text|file|data)$/.test(value),
  ),
  rpcErrorForm: ({ peer }) => {
    for (const reply of peer.log) {
      const wrong = reply.messages
        .filter(isObject)
        .map((each) => each['error'])
        .find((error) => error !== undefined && error !== null && !isRpcError(error));
      if (wrong !== undefined) return fail('an error without a number as code or without a message', reply);
    }
    return PASS;
  },
  noStackTraces: ({ peer }) => {
    const wrong = peer.log.find((reply) => errorsOf(reply).some(disclosesInside));
    return expect(wrong === undefined, 'an error shows a stack trace or a path of the agent', wrong);
  },
};

/** The errors in a reply: a member of messages, or the whole body of a refusal. */
const errorsOf = ({ messages, status = 0 }: Reply): unknown[] =>
  messages
    .filter(isObject)
    .flatMap(({ error, ...rest }) => (error !== undefined ? [error] : status >= 400 ? [rest] : []));

const isRpcError = (error: unknown): boolean =>
  isObject(error) && Number.isInteger(error['code']) && typeof error['message'] === 'string';
