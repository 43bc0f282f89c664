/** Probes of A2A agents. */
import { headerOf } from '../../protocol/http/headers.js';
import { asList, asObject, eachObject, isObject, isText, type Json } from '../json.js';
import { expect, fail, PASS, skip, type Verdict } from '../requirement.js';
import type { Reply } from '../wire/reply.js';
import { contentType } from '../wire/reply.js';
import { type A2aPeer, type A2aReply, errorInfo, type Operation } from './peer.js';

export interface A2aSurface {
  readonly peer: A2aPeer;
  /** Whether messages may be sent to the agent. */
  readonly active: boolean;
  readonly credentials: boolean;
  once<T>(name: string, make: () => Promise<T>): Promise<T>;
}

export type A2aProbe = (surface: A2aSurface) => Verdict | Promise<Verdict>;

const UNKNOWN = 'parley-no-such-task';
const PASSIVE = 'needs a message to the agent, which --active sends';
const ENDED: ReadonlySet<unknown> = new Set([
  ...['TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED'],
  ...['completed', 'failed', 'canceled', 'rejected', 'TASK_STATE_CANCELLED'],
]);

const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  '1.0': [
    'name',
    'description',
    'version',
    'supportedInterfaces',
    'capabilities',
    'defaultInputModes',
    'defaultOutputModes',
    'skills',
  ],
  '0.3': [
    'protocolVersion',
    'name',
    'description',
    'url',
    'version',
    'capabilities',
    'defaultInputModes',
    'defaultOutputModes',
    'skills',
  ],
};

const said = ({ code, result, reply }: A2aReply): string =>
  code !== undefined
    ? `got ${code}`
    : result !== undefined
      ? 'got a result'
      : (reply.failure ?? `got the status ${reply.status}`);

/** Whether a reply has the code. Before 1.0, errors over HTTP+JSON have no defined form, so the status counts. */
function refused(answer: A2aReply, code: number, peer: A2aPeer): Verdict {
  const { status = 0 } = answer.reply;
  const loose =
    peer.binding === 'HTTP+JSON' && (peer.version === '0.3' || (answer.code === undefined && code <= -32600));
  const right = loose ? status >= 400 && status < 600 && status !== 500 : answer.code === code;
  return expect(right, `expected the error ${code}, ${said(answer)}`, answer);
}

const capabilities = ({ peer }: A2aSurface): Json => asObject(peer.card['capabilities']);

/** A message of the version and binding. */
export function messageParams({ version, binding }: A2aPeer, more: Json = {}, parts?: unknown[]): Json {
  const text = 'Hello';
  const messageId = 'parley-message';
  if (version === '1.0') return { message: { messageId, role: 'ROLE_USER', parts: parts ?? [{ text }], ...more } };
  if (binding === 'HTTP+JSON')
    return { message: { messageId, role: 'ROLE_USER', content: parts ?? [{ text }], ...more } };
  return { message: { kind: 'message', messageId, role: 'user', parts: parts ?? [{ kind: 'text', text }], ...more } };
}

/** The answer to one message, sent once. */
const sent = (surface: A2aSurface): Promise<A2aReply> =>
  surface.once('send', () => surface.peer.call('send', messageParams(surface.peer)));

const taskOf = ({ peer }: A2aSurface, { result }: A2aReply): Json | undefined => {
  if (peer.version === '0.3' && result?.['kind'] === 'task') return result;
  return isObject(result?.['task']) ? result['task'] : undefined;
};

const messageOf = ({ peer }: A2aSurface, { result }: A2aReply): Json | undefined => {
  if (peer.version === '0.3' && result?.['kind'] === 'message') return result;
  return isObject(result?.['message']) ? result['message'] : undefined;
};

/** A probe with the task of the message. */
const withTask =
  (judge: (task: Json, surface: A2aSurface, answer: A2aReply) => Verdict | Promise<Verdict>): A2aProbe =>
  async (surface) => {
    if (!surface.active) return skip(PASSIVE);
    const answer = await sent(surface);
    const task = taskOf(surface, answer);
    return task === undefined ? skip('the agent answered without a task') : judge(task, surface, answer);
  };

const withEndedTask = (judge: (task: Json, surface: A2aSurface) => Verdict | Promise<Verdict>): A2aProbe =>
  withTask((task, surface) =>
    ENDED.has(asObject(task['status'])['state']) ? judge(task, surface) : skip('the task did not end'),
  );

/** Events of a stream without the envelope of JSON-RPC. */
const eventsOf = (peer: A2aPeer, reply: Reply): Json[] =>
  reply.messages.filter(isObject).map((each) => (peer.binding === 'JSONRPC' ? asObject(each['result']) : each));

const withStream =
  (judge: (answer: A2aReply, events: Json[], surface: A2aSurface) => Verdict): A2aProbe =>
  async (surface) => {
    if (capabilities(surface)['streaming'] !== true) return skip('the agent does not stream');
    if (!surface.active) return skip(PASSIVE);
    const answer = await surface.once('stream', () => surface.peer.call('stream', messageParams(surface.peer)));
    if (!answer.reply.stream) return fail(`expected an event stream, ${said(answer)}`, answer);
    return judge(answer, eventsOf(surface.peer, answer.reply), surface);
  };

/** A probe of one operation that must be refused. */
const refusal =
  (
    operation: Operation,
    params: Json,
    code: number,
    when: (surface: A2aSurface) => string | undefined = () => undefined,
  ): A2aProbe =>
  async (surface) => {
    const reason = when(surface);
    if (reason !== undefined) return skip(reason);
    return refused(await surface.peer.call(operation, params), code, surface.peer);
  };

const unknownTask = (surface: A2aSurface): Promise<A2aReply> =>
  surface.once('unknown task', () => surface.peer.call('get', { id: UNKNOWN }));

/** A probe whose request changes nothing about the answer: an unknown task stays unknown. */
const sameAnswer =
  (options: Parameters<A2aPeer['call']>[2]): A2aProbe =>
  async ({ peer }) =>
    refused(await peer.call('get', { id: UNKNOWN }, options), -32001, peer);

const rpcRefusal =
  (body: unknown, code: number): A2aProbe =>
  async ({ peer }) => {
    const answer = typeof body === 'string' ? await peer.text(body) : await peer.rpc(body);
    return expect(answer.code === code, `expected the error ${code}, ${said(answer)}`, answer);
  };

const TRACE =
  /\n\s+at \S.*:\d+:\d+|Traceback \(most recent call last\)|\/(?:home|usr|var|opt|Users)\/[\w./-]+\.(?:js|ts|mjs|py|go|rs)\b/;

export const A2A_PROBES: Readonly<Record<string, A2aProbe>> = {
  cardPlace: ({ peer: { cardReply } }) => {
    if (!cardReply.evidence.request.includes('agent-card.json'))
      return fail('the card is at the older place', cardReply);
    return expect(
      /^application\/([a-z0-9]+\+)?json/.test(contentType(cardReply)),
      'the card is not application/json',
      cardReply,
    );
  },
  cardFields: ({ peer: { card, cardReply, version } }) => {
    const missing = REQUIRED[version]!.filter((key) => card[key] === undefined);
    return expect(missing.length === 0, `missing: ${missing.join(', ')}`, cardReply);
  },
  cardInterfaces: ({ peer: { card, cardReply } }) => {
    const wrong = asList(card['supportedInterfaces'])
      .map(asObject)
      .find((each) => !isText(each['url']) || !isText(each['protocolBinding']) || !isText(each['protocolVersion']));
    return expect(wrong === undefined, `an interface is incomplete: ${JSON.stringify(wrong)}`, cardReply);
  },
  cardSkills: ({ peer: { card, cardReply } }) => {
    const wrong = asList(card['skills'])
      .map(asObject)
      .find((each) => ![each['id'], each['name'], each['description']].every(isText) || !Array.isArray(each['tags']));
    return expect(wrong === undefined, `a skill is incomplete: ${String(wrong?.['id'])}`, cardReply);
  },
  declaredBinding: async (surface) => {
    const { reply } = await unknownTask(surface);
    const answered = reply.status !== undefined && reply.messages.length > 0;
    return expect(answered, `the declared interface does not answer: ${reply.failure ?? reply.status}`, reply);
  },
  cardCache: ({ peer: { cardReply } }) => {
    const right =
      /max-age=\d/.test(headerOf(cardReply.headers, 'cache-control') ?? '') &&
      headerOf(cardReply.headers, 'etag') !== undefined;
    return expect(right, 'Cache-Control with max-age, or ETag, is missing', cardReply);
  },
  cardNotModified: async ({ peer: { http, cardReply } }) => {
    const etag = headerOf(cardReply.headers, 'etag');
    if (etag === undefined) return skip('the card has no ETag');
    const url = new URL(/ (\S+)/.exec(cardReply.evidence.request)![1]!, http.url);
    const reply = await http.send({
      method: 'GET',
      url,
      headers: { Accept: 'application/json', 'If-None-Match': etag, 'A2A-Version': '1.0' },
    });
    return expect(reply.status === 304, `expected the status 304, got ${reply.status}`, reply);
  },
  preferredTransport: ({ peer: { card, cardReply } }) =>
    expect(isText(card['preferredTransport']), 'preferredTransport is missing', cardReply),
  patchVersion: sameAnswer({ headers: { 'A2A-Version': '1.0.7' } }),
  queryVersion: sameAnswer({ headers: { 'A2A-Version': undefined }, query: 'A2A-Version=1.0' }),
  unknownVersion: async ({ peer }) =>
    refused(await peer.call('get', { id: UNKNOWN }, { headers: { 'A2A-Version': '99.0' } }), -32009, peer),
  unknownExtension: sameAnswer({
    headers: {
      'A2A-Extensions': 'https://parley.example/unknown',
      'X-A2A-Extensions': 'https://parley.example/unknown',
    },
  }),
  sendMessage: async (surface) => {
    if (!surface.active) return skip(PASSIVE);
    const answer = await sent(surface);
    const right = taskOf(surface, answer) !== undefined || messageOf(surface, answer) !== undefined;
    return expect(right, `neither a task nor a message: ${said(answer)}`, answer);
  },
  contextId: async (surface) => {
    if (!surface.active) return skip(PASSIVE);
    const answer = await sent(surface);
    const given = taskOf(surface, answer) ?? messageOf(surface, answer);
    if (given === undefined) return skip('the message was not answered');
    return expect(isText(given['contextId']), 'the answer has no contextId', answer);
  },
  terminalMessage: withEndedTask(async ({ id, contextId }, { peer }) =>
    refused(await peer.call('send', messageParams(peer, { taskId: id, contextId })), -32004, peer),
  ),
  unknownTaskMessage: async ({ active, peer }) => {
    if (!active) return skip(PASSIVE);
    return refused(await peer.call('send', messageParams(peer, { taskId: UNKNOWN })), -32001, peer);
  },
  unknownTask: async (surface) => refused(await unknownTask(surface), -32001, surface.peer),
  getTask: withTask(async ({ id }, { peer }) => {
    const answer = await peer.call('get', { id });
    return expect(answer.result?.['id'] === id, `the task was not found: ${said(answer)}`, answer);
  }),
  listTasks: async ({ peer }) => {
    const answer = await peer.call('list', {});
    if (answer.result === undefined) return fail(`ListTasks fails: ${said(answer)}`, answer);
    const { tasks, nextPageToken, pageSize, totalSize } = answer.result;
    const right =
      Array.isArray(tasks) &&
      typeof nextPageToken === 'string' &&
      typeof pageSize === 'number' &&
      typeof totalSize === 'number';
    return expect(right, 'tasks, nextPageToken, pageSize or totalSize is missing', answer);
  },
  pageSize: async ({ peer }) => refused(await peer.call('list', { pageSize: 101 }), -32602, peer),
  cancelUnknown: refusal('cancel', { id: UNKNOWN }, -32001),
  cancelEnded: withEndedTask(async ({ id, status }, { peer }) =>
    /CANCEL/i.test(String(asObject(status)['state']))
      ? skip('the task was cancelled')
      : refused(await peer.call('cancel', { id }), -32002, peer),
  ),
  historyLength: withTask(async ({ id }, { peer }) => {
    const answer = await peer.call('get', { id, historyLength: 0 });
    return expect(asList(answer.result?.['history']).length === 0, 'the task has a history', answer);
  }),
  emptyMessage: async ({ active, peer }) => {
    if (!active) return skip(PASSIVE);
    return refused(await peer.call('send', messageParams(peer, {}, [])), -32602, peer);
  },
  artifacts: withTask((task, _, answer) => {
    const artifacts = asList(task['artifacts']).map(asObject);
    if (artifacts.length === 0) return skip('the task has no artifacts');
    const wrong = artifacts.find((each) => !isText(each['artifactId']) || !Array.isArray(each['parts']));
    return expect(wrong === undefined, 'an artifact without artifactId or parts', answer);
  }),
  streamingOff: refusal('subscribe', { id: UNKNOWN }, -32004, (surface) =>
    capabilities(surface)['streaming'] === true ? 'the agent streams' : undefined,
  ),
  subscribeUnknown: refusal('subscribe', { id: UNKNOWN }, -32001, (surface) =>
    capabilities(surface)['streaming'] === true ? undefined : 'the agent does not stream',
  ),
  streamBegin: withStream((answer, [first]) =>
    expect(
      isObject(first?.['task']) || isObject(first?.['message']),
      'the first event is no task and no message',
      answer,
    ),
  ),
  streamEnd: withStream((answer) => expect(answer.reply.ended, 'the stream stayed open', answer)),
  streamEvents: withStream(({ reply, evidence }) => {
    const id = asObject(reply.sent)['id'];
    const right = reply.messages.every((each) => isObject(each) && each['jsonrpc'] === '2.0' && each['id'] === id);
    return expect(right, 'an event is no JSON-RPC response with the id of the request', { evidence });
  }),
  pushOff: refusal('getPush', { taskId: UNKNOWN, id: 'parley-none' }, -32003, (surface) =>
    capabilities(surface)['pushNotifications'] === true ? 'the agent has push notifications' : undefined,
  ),
  pushUnknown: refusal('getPush', { taskId: UNKNOWN, id: 'parley-none' }, -32001, (surface) =>
    capabilities(surface)['pushNotifications'] === true ? undefined : 'the agent has no push notifications',
  ),
  extendedCardOff: refusal('extendedCard', {}, -32004, (surface) =>
    capabilities(surface)['extendedAgentCard'] === true ? 'the agent has an extended card' : undefined,
  ),
  authentication: async ({ peer }) => {
    const declared = asList(peer.card['securityRequirements'] ?? peer.card['security']).length > 0;
    if (!declared) return skip('the card declares no security');
    const { reply } = await peer.call('get', { id: UNKNOWN }, { credentials: false });
    const right = reply.status === 401 && headerOf(reply.headers, 'www-authenticate') !== undefined;
    return expect(right, `a request without credentials got the status ${reply.status}`, reply);
  },
  restErrors: async (surface) => {
    const { reply } = await unknownTask(surface);
    const error = asObject(asObject(reply.messages[0])['error']);
    const info = errorInfo(error);
    if (error['code'] !== reply.status || !isText(error['status']) || !isText(error['message']))
      return fail('the error has no code, status or message', reply);
    return expect(isText(info?.['reason']) && isText(info['domain']), 'the error has no ErrorInfo', reply);
  },
  rpcErrorInfo: async (surface) => {
    const { reply } = await unknownTask(surface);
    if (reply.error === undefined) return skip('there was no error');
    return expect(isText(errorInfo(reply.error)?.['reason']), 'the error has no ErrorInfo', reply);
  },
  restStatus: async (surface) => {
    const { reply } = await unknownTask(surface);
    return expect(reply.status === 404, `an unknown task got the status ${reply.status}`, reply);
  },
  parseError: rpcRefusal('{"jsonrpc": "2.0", ', -32700),
  notRequest: rpcRefusal({ jsonrpc: '2.0', id: 1, metod: 'x' }, -32600),
  unknownMethod: rpcRefusal({ jsonrpc: '2.0', id: 1, method: 'parley/unknown', params: {} }, -32601),
  batch: rpcRefusal([{ jsonrpc: '2.0', id: 1, method: 'parley/unknown' }], -32600),
  ids: async ({ peer }) => {
    for (const id of ['parley-id', 0, 7]) {
      const { reply } = await peer.rpc({ jsonrpc: '2.0', id, method: 'parley/unknown', params: {} });
      if (reply.response?.['id'] !== id)
        return fail(`the id ${JSON.stringify(id)} came back as ${JSON.stringify(reply.response?.['id'])}`, reply);
    }
    return PASS;
  },
};

/** Metadata belongs to the agent and its extensions. */
const FREE: ReadonlySet<string> = new Set(['metadata', 'data', 'params', 'header']);

export const A2A_OBSERVATIONS: Readonly<Record<string, A2aProbe>> = {
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
  stateNames: ({ peer }) => {
    let seen = 0;
    for (const reply of peer.log) {
      let wrong: unknown;
      eachObject(reply.messages, ({ status }) => {
        const state = asObject(status)['state'];
        if (state === undefined) return;
        seen++;
        if (!/^TASK_STATE_[A-Z_]+$/.test(String(state))) wrong ??= state;
      });
      if (wrong !== undefined) return fail(`the state ${String(wrong)}`, reply);
    }
    return seen === 0 ? skip('no state was sent') : PASS;
  },
  noStackTraces: ({ peer }) => {
    const wrong = peer.log.find((reply) => TRACE.test(JSON.stringify(reply.messages).replaceAll('\\n', '\n')));
    return expect(wrong === undefined, 'an error shows a stack trace or a path of the agent', wrong);
  },
};
