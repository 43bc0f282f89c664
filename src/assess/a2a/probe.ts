/** The parts of probes: messages to the agent, its tasks and streams, and the errors that are expected. */
import { asObject, isObject, type Json } from '../json.js';
import { expect, fail, skip, type Verdict } from '../requirement.js';
import type { Reply } from '../wire/reply.js';
import type { Operation, OperationInput } from './operations.js';
import type { A2aOptions, A2aPeer, A2aReply } from './peer.js';

export interface A2aSurface {
  readonly peer: A2aPeer;
  /** The other bindings of the same version. */
  readonly siblings: readonly A2aPeer[];
  /** Whether messages may be sent to the agent. */
  readonly active: boolean;
  readonly credentials: boolean;
  once<T>(name: string, make: () => Promise<T>): Promise<T>;
}

export type A2aProbe = (surface: A2aSurface) => Verdict | Promise<Verdict>;
export type Probes = Readonly<Record<string, A2aProbe>>;

export const UNKNOWN = 'parley-no-such-task';
export const PASSIVE = 'needs a message to the agent, which --active sends';

const ENDED = /^(TASK_STATE_)?(COMPLETED|FAILED|CANCELL?ED|REJECTED)$/i;
const WAITING = /^(TASK_STATE_)?(INPUT[-_]REQUIRED|AUTH[-_]REQUIRED)$/i;

const stateOf = (task: Json): string => String(asObject(task['status'])['state']);
export const isEnded = (task: Json): boolean => ENDED.test(stateOf(task));
/** Whether the agent waits for the client. */
export const isWaiting = (task: Json): boolean => WAITING.test(stateOf(task));
export const isCanceled = (task: Json): boolean => /CANCEL/i.test(stateOf(task));

export const said = ({ code, result, reply, grpc }: A2aReply): string =>
  code !== undefined
    ? `got ${code}`
    : result !== undefined
      ? 'got a result'
      : (reply.failure ?? (grpc === undefined ? `got the status ${reply.status}` : `got the status ${grpc}`));

/** Statuses of gRPC that do not say that the request was refused. */
const BROKEN: ReadonlySet<string> = new Set(['OK', 'UNAVAILABLE', 'INTERNAL', 'UNKNOWN', 'DEADLINE_EXCEEDED']);

/**
 * Whether a reply has the code. Over HTTP+JSON and gRPC, the status counts instead where errors have no defined form:
 * before 1.0 for all errors, and in 1.0 for the errors of JSON-RPC itself.
 */
export function refused(answer: A2aReply, code: number, { binding, modern }: A2aPeer): Verdict {
  const { status = 0 } = answer.reply;
  const loose = binding !== 'JSONRPC' && (!modern || (answer.code === undefined && code <= -32600));
  const right = !loose
    ? answer.code === code
    : answer.grpc === undefined
      ? status >= 400 && status < 600 && status !== 500
      : !BROKEN.has(answer.grpc);
  return expect(right, `expected the error ${code}, ${said(answer)}`, answer);
}

const SLOW = 'the agent works longer than an answer may take';

/** Whether nothing came back in time. Agents work long on messages, which is no violation. */
export const isSlow = ({ reply, code }: A2aReply): boolean =>
  reply.late === true && code === undefined && reply.messages.every((each) => asObject(each)['error'] !== undefined);

/** Like `refused`, for messages that the agent may work on. */
export const refusedMessage = (answer: A2aReply, code: number, peer: A2aPeer): Verdict =>
  isSlow(answer) ? skip(SLOW) : refused(answer, code, peer);

/** Sends a message with a body of its own, and expects an error. */
export const messageRefused = (code: number, body: (peer: A2aPeer) => Json): A2aProbe =>
  whenActive(async ({ peer }) => refusedMessage(await peer.call('send', { body: body(peer) }), code, peer));

/** A verdict about the answer to a message, if there is one in time. */
export const unlessSlow = (answer: A2aReply, judge: () => Verdict): Verdict => (isSlow(answer) ? skip(SLOW) : judge());

/** Whether the agent refused a request with any error, and did not break. */
export function isRefusal({ code, grpc, reply }: A2aReply): boolean {
  if (grpc !== undefined) return code !== undefined || !BROKEN.has(grpc);
  return code !== undefined || ((reply.status ?? 0) >= 400 && (reply.status ?? 0) < 500);
}

export const capabilities = ({ peer }: A2aSurface): Json => asObject(peer.card['capabilities']);

/** The answer to one message, sent once. */
export const sent = (surface: A2aSurface): Promise<A2aReply> => surface.once('send', () => send(surface.peer));

async function send(peer: A2aPeer): Promise<A2aReply> {
  const answer = await peer.call('send', { body: peer.message() });
  if (!hasTwoForms(peer) || !isRefusal(answer)) return answer;
  peer.rpcForm = true;
  const other = await peer.call('send', { body: peer.message() });
  if (!isRefusal(other)) return other;
  peer.rpcForm = false;
  return answer;
}

const hasTwoForms = ({ binding, modern }: A2aPeer): boolean => binding === 'HTTP+JSON' && !modern;

/** A task of a message whose answer does not wait for the end, sent once. */
export const begun = (surface: A2aSurface): Promise<A2aReply> =>
  surface.once('begin', () => surface.peer.call('send', { body: surface.peer.message({ returnImmediately: true }) }));

export const taskOf = ({ peer }: A2aSurface, { result }: A2aReply): Json | undefined => {
  if (isObject(result?.['task'])) return result['task'];
  if (peer.modern || peer.binding === 'GRPC' || result === undefined) return undefined;
  if (peer.version === '0.1') return isObject(result['status']) ? result : undefined;
  return result['kind'] === 'task' ? result : undefined;
};

export const messageOf = ({ peer }: A2aSurface, { result }: A2aReply): Json | undefined => {
  if (isObject(result?.['message'])) return result['message'];
  return !peer.modern && result?.['kind'] === 'message' ? result : undefined;
};

/** A probe that sends messages. */
export const whenActive =
  (probe: A2aProbe): A2aProbe =>
  async (surface) => {
    if (!surface.active) return skip(PASSIVE);
    // The first message shows which form the agent reads.
    if (hasTwoForms(surface.peer)) await sent(surface);
    return probe(surface);
  };

/** A probe with the task of the message. */
export const withTask = (
  judge: (task: Json, surface: A2aSurface, answer: A2aReply) => Verdict | Promise<Verdict>,
): A2aProbe =>
  whenActive(async (surface) => {
    const answer = await sent(surface);
    const task = taskOf(surface, answer);
    return task === undefined ? skip('the agent answered without a task') : judge(task, surface, answer);
  });

export const withEndedTask = (judge: (task: Json, surface: A2aSurface) => Verdict | Promise<Verdict>): A2aProbe =>
  withTask((task, surface) => (isEnded(task) ? judge(task, surface) : skip('the task did not end')));

/** A probe with a task that still runs after its answer. */
export const withRunningTask = (judge: (task: Json, surface: A2aSurface) => Verdict | Promise<Verdict>): A2aProbe =>
  whenActive(async (surface) => {
    const task = taskOf(surface, await begun(surface));
    if (task === undefined) return skip('the agent answered without a task');
    return isEnded(task) ? skip('the task ended at once') : judge(task, surface);
  });

/** Events of a stream without the envelope of JSON-RPC. */
const eventsOf = (peer: A2aPeer, reply: Reply): Json[] =>
  reply.messages
    .filter(isObject)
    .map((each) => (peer.binding === 'JSONRPC' ? asObject(each['result']) : each))
    .filter((each) => each['error'] === undefined);

export const withStream = (judge: (answer: A2aReply, events: Json[], surface: A2aSurface) => Verdict): A2aProbe =>
  whenActive(async (surface) => {
    if (capabilities(surface)['streaming'] !== true) return skip('the agent does not stream');
    const { peer } = surface;
    const answer = await surface.once('stream', () => peer.call('stream', { body: peer.message() }));
    if (isSlow(answer)) return skip(SLOW);
    if (!answer.reply.stream) return fail(`expected an event stream, ${said(answer)}`, answer);
    return judge(answer, eventsOf(peer, answer.reply), surface);
  });

/** A probe of one operation that must be refused. */
export const refusal =
  (
    operation: Operation,
    input: OperationInput,
    code: number,
    when: (surface: A2aSurface) => string | undefined = () => undefined,
  ): A2aProbe =>
  async (surface) => {
    const reason = when(surface);
    if (reason !== undefined) return skip(reason);
    return refused(await surface.peer.call(operation, input), code, surface.peer);
  };

export const unknownTask = (surface: A2aSurface): Promise<A2aReply> =>
  surface.once('unknown task', () => surface.peer.call('get', { id: UNKNOWN }));

/** A probe that asks for an unknown task in another way: the error stays the same. */
export const sameAnswer =
  (options: A2aOptions, more?: Json): A2aProbe =>
  async ({ peer }) =>
    refused(await peer.call('get', { id: UNKNOWN, ...(more && { more }) }, options), -32001, peer);
