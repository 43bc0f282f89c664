/** Probes of tasks: experimental in the last revision of the legacy era, an extension in the modern era. */
import { sleep } from '../../core/timing.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { META as PROTOCOL_META, TASKS_EXTENSION } from '../../protocol/mcp/model.js';
import { isTerminal, takesTasks, taskSupport } from '../../protocol/mcp/translate/task.js';
import { asList, asObject, isObject, isText, type Json } from '../json.js';
import { expect, fail, PASS, skip, type Verdict } from '../requirement.js';
import type { Reply } from '../wire/reply.js';
import { interactions } from './interaction.js';
import { type Probe, replies } from './observed.js';
import { type CallOptions, META, type Peer } from './peer.js';
import { outcome, refusedWith, served } from './probes-base.js';
import type { McpSurface } from './surface.js';

const NO_TASK = 'no tool that may be called runs as a task';
const NO_CANCEL = 'tasks.cancel is not declared';
const NO_TASK_ID = 'parley-none';
const POLLS = 20;
const SHORTEST_POLL = 20;
const LONGEST_POLL = 250;
const GUESSABLE = 16;
const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/;

interface Task {
  readonly id: string;
  readonly created: Reply;
  /** The last answer of `tasks/get`. */
  readonly got: Reply;
  /** The number of requests `tasks/get`. */
  readonly looks: number;
}

const WITH_TASKS = { [META.capabilities]: { extensions: { [TASKS_EXTENSION]: {} } } };

/** A request about one task, in the form of the revision. */
const about = (peer: Peer, method: string, taskId: string, more: Json = {}): Promise<Reply> => {
  const options: CallOptions =
    peer.revision.era === 'modern' ? { meta: WITH_TASKS, headers: { 'Mcp-Name': taskId } } : {};
  return peer.call(method, { taskId, ...more }, options);
};

const declaresTasks = ({ capabilities }: McpSurface): boolean => takesTasks(capabilities as JsonObject);

const cancelsTasks = ({ capabilities }: McpSurface): boolean => isObject(asObject(capabilities['tasks'])['cancel']);

const hasExtension = ({ capabilities }: McpSurface): boolean =>
  asObject(capabilities['extensions'])[TASKS_EXTENSION] !== undefined;

/** The task in the result of a call: `task` of the legacy era, the result itself of the modern era. */
const created = (surface: McpSurface, { result }: Reply): Json =>
  surface.modern ? (result?.['resultType'] === 'task' ? result : {}) : asObject(result?.['task']);

async function startTask(surface: McpSurface): Promise<Reply | undefined> {
  if (surface.modern)
    return (await interactions(surface)).calls.find(({ reply }) => reply.result?.['resultType'] === 'task')?.reply;
  if (!declaresTasks(surface)) return undefined;
  const tool = (await surface.callableAsTasks()).find((each) => taskSupport(each as JsonObject) !== 'forbidden');
  if (tool === undefined) return undefined;
  return surface.peer.call('tools/call', { name: tool['name'], arguments: {}, task: { ttl: 60_000 } });
}

/** A task, followed until it ends or for a bounded number of polls. */
const task = (surface: McpSurface): Promise<Task | Reply | undefined> =>
  surface.once('task', async () => {
    const reply = await startTask(surface);
    if (reply === undefined) return undefined;
    const { taskId } = created(surface, reply);
    if (!isText(taskId)) return reply;
    let looks = 0;
    const got = await ended(surface.peer, taskId, () => looks++);
    return { id: taskId, created: reply, got, looks };
  });

/** Waits as long as the server wants between two requests `tasks/get`, within bounds. */
function pause({ result }: Reply): Promise<void> {
  const wanted = Number(result?.['pollInterval'] ?? result?.['pollIntervalMs'] ?? LONGEST_POLL);
  return sleep(Math.min(LONGEST_POLL, Math.max(SHORTEST_POLL, wanted || 0)));
}

/** The last answer of `tasks/get`, after the end of the task or a bounded number of polls. */
async function ended(peer: Peer, taskId: string, each: (got: Reply) => void = () => {}): Promise<Reply> {
  let got = await about(peer, 'tasks/get', taskId);
  each(got);
  for (let i = 0; i < POLLS && got.result !== undefined && !isTerminal(String(got.result['status'])); i++) {
    await pause(got);
    got = await about(peer, 'tasks/get', taskId);
    each(got);
  }
  return got;
}

/** A probe of a task. `taskCreated` judges a call that should have become a task and did not. */
const onTask =
  (judge: (made: Task, surface: McpSurface) => Verdict | Promise<Verdict>): Probe =>
  async (surface) => {
    const made = await task(surface);
    return made === undefined || !('id' in made) ? skip(NO_TASK) : judge(made, surface);
  };

/** A probe of a task that ended. For a running task, `tasks/result` of the legacy era would wait for the end. */
const onEnded = (judge: (made: Task, status: string, surface: McpSurface) => Verdict | Promise<Verdict>): Probe =>
  onTask((made, surface) => {
    const status = String(made.got.result?.['status']);
    return isTerminal(status) ? judge(made, status, surface) : skip('the task did not end in time');
  });

const isTime = (value: unknown): boolean => typeof value === 'string' && ISO.test(value);

const TASK_TOKEN = 'parley-task';
const TASK_CALL = 'parley-task-call';

/** The notifications of a call that became a task, on a connection of its own. */
interface Followed {
  /** After the task was created, until it ended. */
  readonly during: readonly Json[];
  readonly after: readonly Json[];
  readonly last: Reply;
}

/** Calls a tool that becomes a task, with a token for progress, and follows the task to its end. */
async function followed(surface: McpSurface): Promise<Followed | undefined> {
  const { modern } = surface;
  const tool = modern
    ? (await interactions(surface)).calls.find(({ reply }) => reply.result?.['resultType'] === 'task')?.tool
    : declaresTasks(surface)
      ? (await surface.callableAsTasks()).find((each) => taskSupport(each as JsonObject) !== 'forbidden')
      : undefined;
  if (tool === undefined) return undefined;
  const peer = await surface.options.fresh();
  try {
    const params = { name: tool['name'], arguments: {}, ...(!modern && { task: { ttl: 60_000 } }) };
    const meta = { progressToken: TASK_TOKEN, ...(modern && { ...WITH_TASKS, [META.level]: 'debug' }) };
    const made = await peer.call('tools/call', params, { meta });
    const { taskId } = created(surface, made);
    if (!isText(taskId)) return undefined;
    const during = made.messages.slice(made.messages.indexOf(made.response) + 1).filter(isObject);
    const got = await ended(peer, taskId, ({ messages }) => during.push(...messages.filter(isObject)));
    if (got.result === undefined) return undefined;
    const last = await about(peer, 'tasks/get', taskId);
    return { during, after: last.messages.filter(isObject), last };
  } finally {
    await peer.close();
  }
}

const isProgress = (message: Json): boolean =>
  message['method'] === 'notifications/progress' && asObject(message['params'])['progressToken'] === TASK_TOKEN;

export const TASK_PROBES: Readonly<Record<string, Probe>> = {
  taskProgressEnds: async (surface) => {
    const task = await followed(surface);
    if (task === undefined) return skip(NO_TASK);
    if (!isTerminal(String(task.last.result?.['status']))) return skip('the task did not end in time');
    return expect(!task.after.some(isProgress), 'progress was sent after the end of the task', task.last);
  },
  taskQuiet: async (surface) => {
    const task = await followed(surface);
    if (task === undefined) return skip(NO_TASK);
    const wrong = [...task.during, ...task.after].find(
      (each) => isProgress(each) || each['method'] === 'notifications/message',
    );
    return expect(wrong === undefined, `a task sent ${String(wrong?.['method'])}`, task.last);
  },
  taskNotCancelled: async (surface) => {
    if (!declaresTasks(surface)) return skip(NO_TASK);
    const tool = (await surface.callableAsTasks()).find((each) => taskSupport(each as JsonObject) !== 'forbidden');
    if (tool === undefined) return skip(NO_TASK);
    // On the connection that stays: some servers do not survive a client that leaves a running task.
    const { peer } = surface;
    const params = { name: tool['name'], arguments: {}, task: { ttl: 60_000 } };
    const { taskId } = created(surface, await peer.call('tools/call', params, { id: TASK_CALL }));
    if (!isText(taskId)) return skip(NO_TASK);
    await peer.notify('notifications/cancelled', { requestId: TASK_CALL, reason: 'assessed' });
    const got = await ended(peer, taskId);
    return expect(got.result?.['status'] !== 'cancelled', 'notifications/cancelled cancelled a task', got);
  },
  taskIgnored: async (surface) => {
    if (declaresTasks(surface)) return skip('the server runs calls as tasks');
    const plain = (await surface.calls()).find(({ reply }) => Array.isArray(reply.result?.['content']));
    if (plain === undefined) return skip('no tool that may be called has a result');
    const { tool } = plain;
    const reply = await surface.peer.call('tools/call', { name: tool['name'], arguments: {}, task: { ttl: 60_000 } });
    return expect(
      Array.isArray(reply.result?.['content']) || reply.result?.['resultType'] === 'input_required',
      `a call with the parameter task was not answered like other calls: ${outcome(reply)}`,
      reply,
    );
  },
  taskRequired: async (surface) => {
    if (!declaresTasks(surface)) return skip('the server runs no calls as tasks');
    const tool = (await surface.callableAsTasks()).find((each) => taskSupport(each as JsonObject) === 'required');
    if (tool === undefined) return skip('no tool that may be called runs as a task only');
    return refusedWith(await surface.peer.call('tools/call', { name: tool['name'], arguments: {} }), -32601);
  },
  taskCreated: async (surface) => {
    const made = await task(surface);
    if (made === undefined) return skip(NO_TASK);
    if (!('id' in made)) return fail(`a call as a task led to no task with an id: ${outcome(made)}`, made);
    const { status } = created(surface, made.created);
    return expect(status === 'working', `the first status is ${JSON.stringify(status)}`, made.created);
  },
  taskTimes: onTask(({ got }, { modern }) => {
    const { createdAt, lastUpdatedAt } = got.result ?? {};
    if (!isTime(createdAt) || !isTime(lastUpdatedAt)) return fail('createdAt or lastUpdatedAt is not a time', got);
    const ttl = got.result?.[modern ? 'ttlMs' : 'ttl'];
    return expect(ttl === null || typeof ttl === 'number', 'the time to live is neither a number nor null', got);
  }),
  taskResult: onEnded(async ({ id }, status, { peer }) => {
    if (status !== 'completed') return skip(`the task is ${status}`);
    const reply = await about(peer, 'tasks/result', id);
    return expect(
      Array.isArray(reply.result?.['content']),
      `tasks/result does not have the result of the call: ${outcome(reply)}`,
      reply,
    );
  }),
  relatedTask: onEnded(async ({ id }, status, { peer }) => {
    if (status !== 'completed') return skip(`the task is ${status}`);
    const reply = await about(peer, 'tasks/result', id);
    const related = asObject(asObject(reply.result?.['_meta'])[PROTOCOL_META.relatedTask]);
    return expect(related['taskId'] === id, 'the result does not name its task in _meta', reply);
  }),
  endedTaskCancel: onEnded(async ({ id }, _, surface) => {
    if (!cancelsTasks(surface)) return skip(NO_CANCEL);
    return refusedWith(await about(surface.peer, 'tasks/cancel', id), -32602);
  }),
  runningTaskCancel: onTask(async ({ looks }, surface) => {
    if (!cancelsTasks(surface)) return skip(NO_CANCEL);
    const { taskId } = created(surface, (await startTask(surface))!);
    if (!isText(taskId)) return skip(NO_TASK);
    const { peer } = surface;
    const reply = await about(peer, 'tasks/cancel', taskId);
    let got = await about(peer, 'tasks/get', taskId);
    if (reply.result === undefined) {
      const running = got.result !== undefined && !isTerminal(String(got.result['status']));
      return running
        ? fail(`a running task was not cancelled: ${outcome(reply)}`, reply, got)
        : skip('the task had ended');
    }
    const { status } = reply.result;
    if (status !== 'cancelled')
      return fail(`the answer to tasks/cancel has the status ${JSON.stringify(status)}`, reply);
    // Without the cancellation, the task would have ended after as many looks as the first one. A server may delete a
    // cancelled task: `tasks/get` then has no result.
    for (let i = 0; i <= looks && got.result !== undefined; i++) {
      const now = got.result['status'];
      if (now !== 'cancelled') return fail(`a cancelled task has the status ${JSON.stringify(now)}`, reply, got);
      await pause(got);
      got = await about(peer, 'tasks/get', taskId);
    }
    return PASS;
  }),
  listedTask: onTask(async ({ id }, surface) => {
    if (!isObject(asObject(surface.capabilities['tasks'])['list'])) return skip('tasks.list is not declared');
    const reply = await surface.peer.call('tasks/list', {});
    const found = asList(reply.result?.['tasks']).some((each) => asObject(each)['taskId'] === id);
    return expect(found || isText(reply.result?.['nextCursor']), 'tasks/list does not contain the task', reply);
  }),
  taskGuess: onTask(({ id, created: reply }) =>
    expect(id.length >= GUESSABLE, `the id of a task has ${id.length} characters`, reply),
  ),
  taskResultType: onTask(({ got }) =>
    expect(
      got.result?.['resultType'] === 'complete',
      `the resultType of tasks/get is ${JSON.stringify(got.result?.['resultType'])}`,
      got,
    ),
  ),
  taskElsewhere: onTask(async ({ id }, { options }) => {
    const other = await options.fresh();
    const reply = await about(other, 'tasks/get', id);
    await other.close();
    return served(reply, 'another connection does not find the task');
  }),
  taskOutcome: onEnded(({ got }, status) => {
    if (status === 'completed') return expect(isObject(got.result!['result']), 'a completed task has no result', got);
    if (status === 'failed') return expect(isObject(got.result!['error']), 'a failed task has no error', got);
    return skip(`the task is ${status}`);
  }),
  failedTask: onEnded(({ got }, status) => {
    const failed = asObject(got.result!['result'])['isError'] === true;
    return expect(!(status === 'failed' && failed), 'a result with isError made the task fail', got);
  }),
  taskCancelled: onTask(async (_, surface) => {
    const again = await startAgain(surface);
    if (again === undefined) return skip(NO_TASK);
    const reply = await about(surface.peer, 'tasks/cancel', again);
    // A task that ended in the meantime may be refused.
    if (reply.code === -32602) return skip('the task had ended');
    const keys = Object.keys(reply.result ?? { error: 1 }).filter((key) => key !== 'resultType' && key !== '_meta');
    return expect(keys.length === 0, `the answer to tasks/cancel has ${keys.join(', ')}`, reply);
  }),
  unknownTask: async (surface) => {
    if (!surface.declares('tasks')) return skip('tasks is not declared');
    return refusedWith(await about(surface.peer, 'tasks/get', NO_TASK_ID), -32602);
  },
  unknownTaskExtension: async (surface) => {
    if (!hasExtension(surface)) return skip('the extension for tasks is not advertised');
    return refusedWith(await about(surface.peer, 'tasks/get', NO_TASK_ID), -32602);
  },
  unknownTaskChanges: async (surface) => {
    if (!hasExtension(surface)) return skip('the extension for tasks is not advertised');
    const cancelled = refusedWith(await about(surface.peer, 'tasks/cancel', NO_TASK_ID), -32602);
    if (cancelled.outcome === 'fail') return cancelled;
    return refusedWith(await about(surface.peer, 'tasks/update', NO_TASK_ID, { inputResponses: {} }), -32602);
  },
  undeclaredTaskGet: async (surface) => {
    if (!hasExtension(surface)) return skip('the extension for tasks is not advertised');
    const headers = { 'Mcp-Name': NO_TASK_ID };
    return refusedWith(await surface.peer.call('tasks/get', { taskId: NO_TASK_ID }, { headers }), -32021, 400);
  },
  undeclaredTaskFilter: async (surface) => {
    if (!hasExtension(surface)) return skip('the extension for tasks is not advertised');
    const reply = await surface.peer.call(
      'subscriptions/listen',
      { notifications: { taskIds: [NO_TASK_ID] } },
      { enough: (messages) => messages.length > 0 },
    );
    return reply.code === -32601 ? skip('the server has no subscriptions') : refusedWith(reply, -32021, 400);
  },
  noLegacyTasks: async (surface) => {
    if (surface.declares('tasks')) return fail('the capability tasks is advertised', surface.peer.opening);
    return refusedWith(await surface.peer.call('tasks/result', { taskId: NO_TASK_ID }), -32601);
  },
  extensionIgnored: async (surface) => {
    const { calls } = await interactions(surface);
    const wrong = calls.find(({ reply }) => reply.result?.['resultType'] === 'task');
    if (calls.length === 0) return skip('no tool may be called');
    return expect(wrong === undefined, 'a call became a task of the extension of the modern era', wrong?.reply);
  },
};

/** Starts the same tool as a task once more; returns the id. */
async function startAgain(surface: McpSurface): Promise<string | undefined> {
  const first = (await interactions(surface)).calls.find(({ reply }) => reply.result?.['resultType'] === 'task');
  if (first === undefined) return undefined;
  const params = { name: first.tool['name'], arguments: {} };
  const { taskId } = created(surface, await surface.peer.call('tools/call', params, { meta: WITH_TASKS }));
  return isText(taskId) ? taskId : undefined;
}

const declaredTasks = (sent: unknown): boolean => {
  const meta = asObject(asObject(asObject(sent)['params'])['_meta']);
  return asObject(asObject(meta[META.capabilities])['extensions'])[TASKS_EXTENSION] !== undefined;
};

export const TASK_OBSERVATIONS: Readonly<Record<string, Probe>> = {
  undeclaredTask: replies(
    ({ method, sent }) => method === 'tools/call' && !declaredTasks(sent),
    ({ result }) =>
      result?.['resultType'] === 'task'
        ? 'a call became a task, but the request did not declare the extension'
        : undefined,
    'no tool was called',
  ),
};
