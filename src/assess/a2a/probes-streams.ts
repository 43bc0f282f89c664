/** Probes of streams and push notifications. */
import { asList, asObject, isObject, isText, type Json } from '../json.js';
import { expect, fail, PASS, skip, type Verdict } from '../requirement.js';
import type { Operation } from './operations.js';
import type { A2aPeer, A2aReply } from './peer.js';
import {
  type A2aProbe,
  type A2aSurface,
  capabilities,
  isEnded,
  type Probes,
  refusal,
  refused,
  said,
  UNKNOWN,
  unlessSlow,
  whenActive,
  withEndedTask,
  withRunningTask,
  withStream,
  withTask,
} from './probe.js';

const streams = (surface: A2aSurface): boolean => capabilities(surface)['streaming'] === true;
const pushes = (surface: A2aSurface): boolean => capabilities(surface)['pushNotifications'] === true;

const MEMBERS = ['task', 'message', 'statusUpdate', 'artifactUpdate'];

/** The content of an event. In events of 1.0 and of ProtoJSON, it is in a member with the name of its kind. */
const contentOf = (event: Json): Json => {
  const member = MEMBERS.find((name) => isObject(event[name]));
  return member === undefined ? event : asObject(event[member]);
};

/** The id of the task of an event: `taskId`, or `id` in a task and in all events of 0.1. */
const taskIdOf = (event: Json): unknown => {
  const content = contentOf(event);
  return content['taskId'] ?? (isObject(content['status'] ?? content['artifact']) ? content['id'] : undefined);
};

export const STREAM_PROBES: Probes = {
  streamingOff: refusal('subscribe', { id: UNKNOWN }, -32004, (surface) =>
    streams(surface) ? 'the agent streams' : undefined,
  ),
  subscribeUnknown: refusal('subscribe', { id: UNKNOWN }, -32001, (surface) =>
    streams(surface) ? undefined : 'the agent does not stream',
  ),
  subscribeEnded: withEndedTask(async ({ id }, surface) => {
    if (!streams(surface)) return skip('the agent does not stream');
    return refused(await surface.peer.call('subscribe', { id }), -32004, surface.peer);
  }),
  subscribeRunning: withRunningTask(async ({ id }, surface) => {
    if (!streams(surface)) return skip('the agent does not stream');
    const answer = await surface.peer.call('subscribe', { id }, { firstOnly: true });
    if (!answer.reply.stream) return skip(`the task cannot be subscribed to: ${said(answer)}`);
    const first = asObject(answer.reply.messages[0]);
    const event = surface.peer.binding === 'JSONRPC' ? asObject(first['result']) : first;
    return expect(isObject(event['task']), 'the first event is not the task', answer);
  }),
  earlyFailure: whenActive(async (surface) => {
    if (!streams(surface)) return skip('the agent does not stream');
    const { peer } = surface;
    const answer = await peer.call(
      'stream',
      { body: peer.message({ more: { taskId: UNKNOWN } }) },
      { firstOnly: true },
    );
    return unlessSlow(answer, () => expect(!answer.reply.stream, 'the failure came as an event of a stream', answer));
  }),
  streamBegin: withStream((answer, [first]) =>
    expect(
      isObject(first?.['task']) || isObject(first?.['message']),
      'the first event is neither a task nor a message',
      answer,
    ),
  ),
  streamEnd: withStream((answer, events) => {
    const last = events.at(-1);
    const status = last === undefined ? {} : contentOf(last);
    // A task that waits for the client may keep its stream open.
    if (!answer.reply.ended && last !== undefined && !isEnded(status) && last['final'] !== true)
      return skip('the task did not end');
    return expect(answer.reply.ended, 'the stream stayed open', answer);
  }),
  streamTask: withStream((answer, events) => {
    const ids = new Set(events.map(taskIdOf).filter((each) => each !== undefined));
    if (events.length < 2) return skip('the stream has one event');
    const named = events.slice(1).every((each) => isText(taskIdOf(each)));
    return expect(named && ids.size === 1, 'the events do not have the id of one task', answer);
  }),
  streamMembers: withStream((answer, events) => {
    const wrong = events.find((each) => MEMBERS.filter((name) => each[name] !== undefined).length !== 1);
    return expect(wrong === undefined, 'an event is not exactly one of task, message and updates', answer);
  }),
  finalEvent: withStream((answer, events, { peer }) => {
    if (events.length < 2 || !answer.reply.ended) return skip('the stream has one event, or stayed open');
    const finals = events.map((each) => contentOf(each)['final'] === true);
    if (peer.binding === 'GRPC' && !finals.includes(true)) return fail('no event is final', answer);
    return expect(finals.indexOf(true) === finals.length - 1, 'the last event, and no other, is final', answer);
  }),
  streamEvents: withStream(({ reply, evidence }) => {
    const id = asObject(reply.sent)['id'];
    const right = reply.messages.every((each) => isObject(each) && each['jsonrpc'] === '2.0' && each['id'] === id);
    return expect(right, 'an event is not a JSON-RPC response with the id of the request', { evidence });
  }),
};

const NO_CONFIG = 'parley-none';
/** A host name that does not exist, so that no webhook reaches a server. */
const WEBHOOK = 'https://parley-assess.invalid/hook';
/** The address of the metadata service of clouds, which a webhook must never reach. */
const METADATA = 'http://169.254.169.254/latest/meta-data/';

const pushRefusal =
  (operations: readonly Operation[]): A2aProbe =>
  async (surface) => {
    if (pushes(surface)) return skip('the agent has push notifications');
    for (const operation of operations) {
      const input = { id: UNKNOWN, configId: NO_CONFIG, url: WEBHOOK };
      const answer = await surface.peer.call(operation, input);
      const verdict = refused(answer, -32003, surface.peer);
      if (verdict.outcome === 'fail') return fail(`${operation}: ${verdict.reason}`, answer);
    }
    return PASS;
  };

const create = (peer: A2aPeer, id: unknown, url: string): Promise<A2aReply> =>
  peer.call('createPush', { id, url, configId: `parley-${url === METADATA ? 'inner' : 'hook'}` });

/** A probe with a push configuration of the task, which is created once. */
const withConfig = (
  judge: (config: Json, id: unknown, peer: A2aPeer, answer: A2aReply) => Verdict | Promise<Verdict>,
): A2aProbe =>
  withTask(async ({ id }, surface) => {
    if (!pushes(surface)) return skip('the agent has no push notifications');
    const answer = await surface.once('push', () => create(surface.peer, id, WEBHOOK));
    if (answer.result === undefined) return skip(`the agent refuses the webhook: ${said(answer)}`);
    return judge(answer.result, id, surface.peer, answer);
  });

export const PUSH_PROBES: Probes = {
  pushOff: pushRefusal(['getPush']),
  otherPushOff: pushRefusal(['createPush', 'listPush', 'deletePush']),
  oldPushOff: pushRefusal(['createPush']),
  pushUnknown: refusal('getPush', { id: UNKNOWN, configId: NO_CONFIG }, -32001, (surface) =>
    pushes(surface) ? undefined : 'the agent has no push notifications',
  ),
  createPush: withConfig(({ id, url }, _, __, answer) =>
    expect(isText(id) && url === WEBHOOK, 'the configuration has no id or another url', answer),
  ),
  getPush: withConfig(async ({ id: configId }, id, peer) => {
    const got = await peer.call('getPush', { id, configId });
    if (got.result?.['id'] !== configId) return fail(`the configuration is not found: ${said(got)}`, got);
    const all = await peer.call('listPush', { id });
    const right = asList(all.result?.['configs']).some((each) => asObject(each)['id'] === configId);
    return expect(right, 'the list does not have the configuration', all);
  }),
  deletePush: withConfig(async ({ id: configId }, id, peer) => {
    for (const time of ['first', 'second']) {
      const answer = await peer.call('deletePush', { id, configId });
      const refusedIt = answer.code !== undefined || (answer.reply.status ?? 200) >= 400;
      if (refusedIt || (answer.grpc ?? 'OK') !== 'OK')
        return fail(`the ${time} deletion of the push configuration failed: ${said(answer)}`, answer);
    }
    return refused(await peer.call('getPush', { id, configId }), -32001, peer);
  }),
  innerWebhook: withTask(async ({ id }, surface) => {
    if (!pushes(surface)) return skip('the agent has no push notifications');
    const { peer } = surface;
    const answer = await create(peer, id, METADATA);
    if (answer.result === undefined) return PASS;
    const configId = answer.result['id'] ?? asObject(answer.result['pushNotificationConfig'])['id'] ?? 'parley-inner';
    await peer.call('deletePush', { id, configId });
    return fail('a webhook in the network of the agent is accepted', answer);
  }),
};
