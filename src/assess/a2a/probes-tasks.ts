/** Probes of messages and tasks. */
import { asList, asObject, isObject, isText, type Json } from '../json.js';
import { expect, fail, PASS, skip } from '../requirement.js';
import { bytesPart } from './operations.js';
import type { A2aReply } from './peer.js';
import {
  type A2aSurface,
  begun,
  isCanceled,
  isEnded,
  isRefusal,
  isWaiting,
  messageOf,
  messageRefused,
  type Probes,
  refusal,
  refused,
  refusedMessage,
  said,
  sameAnswer,
  sent,
  taskOf,
  UNKNOWN,
  unknownTask,
  unlessSlow,
  whenActive,
  withEndedTask,
  withRunningTask,
  withTask,
} from './probe.js';

const UNKNOWN_TYPE = 'application/x-parley-unknown';

const inputModes = ({ peer: { card } }: A2aSurface): unknown[] => [
  ...asList(card['defaultInputModes']),
  ...asList(card['skills']).flatMap((each) => asList(asObject(each)['inputModes'])),
];

const listed = (surface: A2aSurface): Promise<A2aReply> => surface.once('list', () => surface.peer.call('list'));

const tasksOf = ({ result }: A2aReply): Json[] => asList(result?.['tasks']).filter(isObject);

export const TASK_PROBES: Probes = {
  sendMessage: whenActive(async (surface) => {
    const answer = await sent(surface);
    const right = taskOf(surface, answer) !== undefined || messageOf(surface, answer) !== undefined;
    return unlessSlow(answer, () => expect(right, `neither a task nor a message: ${said(answer)}`, answer));
  }),
  taskFields: withTask((task, { peer }, answer) => {
    const named = peer.version === '0.2' || peer.version === '0.3' ? ['id', 'contextId'] : ['id'];
    const missing = named.filter((key) => !isText(task[key]));
    if (asObject(task['status'])['state'] === undefined) missing.push('status.state');
    return expect(missing.length === 0, `the task has no ${missing.join(', ')}`, answer);
  }),
  contextId: whenActive(async (surface) => {
    const answer = await sent(surface);
    const given = taskOf(surface, answer) ?? messageOf(surface, answer);
    if (given === undefined) return skip('the message was not answered');
    return expect(isText(given['contextId']), 'the answer has no contextId', answer);
  }),
  otherContext: withTask(async ({ id, contextId }, { peer }) => {
    const more = { taskId: id, contextId: `${String(contextId)}-parley` };
    const answer = await peer.call('send', { body: peer.message({ more }) });
    return unlessSlow(answer, () =>
      expect(isRefusal(answer), `a message whose contextId is not that of its task ${said(answer)}`, answer),
    );
  }),
  keptContext: whenActive(async (surface) => {
    const { peer } = surface;
    const contextId = `parley-${crypto.randomUUID()}`;
    const answer = await peer.call('send', { body: peer.message({ more: { contextId } }) });
    const given = taskOf(surface, answer) ?? messageOf(surface, answer);
    if (given === undefined)
      return unlessSlow(answer, () =>
        expect(isRefusal(answer), `a message with a context of the client ${said(answer)}`, answer),
      );
    return expect(given['contextId'] === contextId, 'the context of the client was replaced', answer);
  }),
  terminalMessage: withEndedTask(async ({ id, contextId }, { peer }) => {
    const body = peer.message({ more: { taskId: id, contextId } });
    return refusedMessage(await peer.call('send', { body }), -32004, peer);
  }),
  unknownTaskMessage: messageRefused(-32001, (peer) => peer.message({ more: { taskId: UNKNOWN } })),
  contentType: whenActive(async (surface) => {
    const { peer } = surface;
    const modes = inputModes(surface);
    if (modes.length === 0 || modes.some((each) => String(each).includes('*')))
      return skip('the card does not limit the media types');
    const body = peer.message({ parts: [bytesPart(peer.version, peer.binding, UNKNOWN_TYPE)] });
    return refusedMessage(await peer.call('send', { body }), -32005, peer);
  }),
  blocking: withTask((task, _, answer) =>
    expect(isEnded(task) || isWaiting(task), 'the answer came before the task ended or waited', answer),
  ),
  returnsAtOnce: whenActive(async (surface) => {
    const answer = await begun(surface);
    const right = taskOf(surface, answer) !== undefined || messageOf(surface, answer) !== undefined;
    return unlessSlow(answer, () => expect(right, `a message with returnImmediately ${said(answer)}`, answer));
  }),
  unknownTask: async (surface) => refused(await unknownTask(surface), -32001, surface.peer),
  getTask: withTask(async ({ id }, { peer }) => {
    const answer = await peer.call('get', { id });
    return expect(answer.result?.['id'] === id, `the task was not found: ${said(answer)}`, answer);
  }),
  listTasks: async (surface) => {
    const answer = await listed(surface);
    if (answer.result === undefined) return fail(`ListTasks fails: ${said(answer)}`, answer);
    // The binary form has no members with a default value.
    if (surface.peer.binding === 'GRPC') return PASS;
    const { tasks, nextPageToken, pageSize, totalSize } = answer.result;
    const right =
      Array.isArray(tasks) &&
      typeof nextPageToken === 'string' &&
      typeof pageSize === 'number' &&
      typeof totalSize === 'number';
    return expect(right, 'tasks, nextPageToken, pageSize or totalSize is missing', answer);
  },
  pageSize: async ({ peer }) => refused(await peer.call('list', { pageSize: 101 }), -32602, peer),
  negativePageSize: async ({ peer }) => refused(await peer.call('list', { pageSize: -1 }), -32602, peer),
  listedTask: withTask(async ({ id }, surface) => {
    const answer = await surface.once('list after', () => surface.peer.call('list', { pageSize: 100 }));
    const tasks = tasksOf(answer);
    return expect(
      tasks.some((each) => each['id'] === id),
      'the list does not have a task of this caller',
      answer,
    );
  }),
  noArtifacts: withTask(async (task, surface) => {
    if (asList(task['artifacts']).length === 0) return skip('the task has no artifacts');
    const answer = await surface.once('list after', () => surface.peer.call('list', { pageSize: 100 }));
    const wrong = tasksOf(answer).find((each) => asList(each['artifacts']).length > 0);
    return expect(wrong === undefined, 'the list has artifacts, which were not asked for', answer);
  }),
  newestFirst: withTask(async (_, surface) => {
    const answer = await surface.once('list after', () => surface.peer.call('list', { pageSize: 100 }));
    const times = tasksOf(answer).flatMap((each) => {
      const time = Date.parse(String(asObject(each['status'])['timestamp']));
      return Number.isNaN(time) ? [] : [time];
    });
    if (times.length < 2) return skip('fewer than two tasks with a timestamp');
    const right = times.every((time, i) => i === 0 || time <= times[i - 1]!);
    return expect(right, 'the newest tasks are not first', answer);
  }),
  pages: withTask(async (_, { peer }) => {
    const first = await peer.call('list', { pageSize: 1 });
    const [one] = tasksOf(first);
    const token = first.result?.['nextPageToken'];
    const total = Number(first.result?.['totalSize'] ?? 0);
    if (total < 2 && !isText(token)) return skip('the agent has fewer than two tasks');
    if (tasksOf(first).length !== 1 || !isText(token)) return fail('a page of one task is not a page', first);
    const second = await peer.call('list', { pageSize: 1, pageToken: token });
    const [other] = tasksOf(second);
    return expect(isText(other?.['id']) && other['id'] !== one?.['id'], 'the second page repeats the first', second);
  }),
  cancelUnknown: refusal('cancel', { id: UNKNOWN }, -32001),
  cancelEnded: withEndedTask(async (task, { peer }) =>
    isCanceled(task)
      ? skip('the task was cancelled')
      : refused(await peer.call('cancel', { id: task['id'] }), -32002, peer),
  ),
  cancelRunning: withRunningTask(async ({ id }, { peer }) => {
    const answer = await peer.call('cancel', { id });
    if (answer.result === undefined) return refused(answer, -32002, peer);
    return expect(answer.result['id'] === id, 'the cancelled task is not returned', answer);
  }),
  historyLength: withTask(async ({ id }, { peer }) => {
    const answer = await peer.call('get', { id, historyLength: 0 });
    return expect(asList(answer.result?.['history']).length === 0, 'the task has a history', answer);
  }),
  historyOrder: withTask(async ({ id }, { peer }, { reply }) => {
    const answer = await peer.call('get', { id });
    const history = asList(answer.result?.['history']).map(asObject);
    const request = asObject(reply.sent);
    const own = asObject(asObject(request['params'] ?? request)['message'])['messageId'];
    const first = history.findIndex(({ messageId }) => messageId === own);
    if (own === undefined || first === -1) return skip('the history does not have the message');
    const wrong = history.slice(0, first).some(({ role }) => role === 'ROLE_AGENT');
    return expect(!wrong, 'a message of the agent comes before the message that began the task', answer);
  }),
  historyLimit: withTask(async ({ id }, { peer }) => {
    const answer = await peer.call('get', { id, historyLength: 1 });
    if (answer.result === undefined) return skip('the task was not found');
    return expect(asList(answer.result['history']).length <= 1, 'the history is longer than asked for', answer);
  }),
  emptyMessage: messageRefused(-32602, (peer) => peer.message({ parts: [] })),
  messageId: messageRefused(-32602, (peer) => peer.message({ messageId: undefined })),
  noMessage: messageRefused(-32602, () => ({})),
  unknownFields: sameAnswer({}, { parleyUnknown: 'x' }),
  artifacts: withTask((task, { peer }, answer) => {
    const artifacts = asList(task['artifacts']).map(asObject);
    if (artifacts.length === 0) return skip('the task has no artifacts');
    const named = peer.version !== '0.1';
    const wrong = artifacts.find((each) => (named && !isText(each['artifactId'])) || !Array.isArray(each['parts']));
    return expect(wrong === undefined, 'an artifact without artifactId or parts', answer);
  }),
  sameOverBindings: async (surface) => {
    const { peer, siblings, active } = surface;
    if (siblings.length === 0) return skip('the agent has one binding of this version');
    const task = active ? taskOf(surface, await sent(surface)) : undefined;
    for (const sibling of siblings) {
      const answer = await sibling.call('get', { id: task?.['id'] ?? UNKNOWN });
      if (task === undefined) {
        const verdict = refused(answer, -32001, sibling);
        if (verdict.outcome === 'fail') return fail(`${sibling.binding} differs: ${verdict.reason}`, answer);
      } else if (answer.result?.['id'] !== task['id'])
        return fail(`a task of ${peer.binding} is not found over ${sibling.binding}: ${said(answer)}`, answer);
    }
    return PASS;
  },
};
