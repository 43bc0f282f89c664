/** Passes the events of a call through plugins: notifications of MCP, events of an A2A stream. */
import type { Events, Passed } from '../../core/a2a/agent.js';
import type { TaskKey } from '../../core/a2a/tasks/task-records.js';
import { agentTarget } from '../../core/admission.js';
import { A2aContext } from '../../core/call.js';
import { Cancellation, GATEWAY, ownerOf } from '../../core/caller.js';
import type { ActivePlugin } from '../../plugins/active-plugin.js';
import { CallView } from '../../plugins/call-view.js';
import { eventDecision, InvalidAnswer } from '../../plugins/hook-answers.js';
import { NATIVE } from '../../protocol/a2a/dialect.js';
import { isTerminal, type StreamResponse } from '../../protocol/a2a/model.js';
import { ProtocolError } from '../../protocol/errors.js';
import { isObject, type JsonObject, type RawObject } from '../../protocol/jsonrpc/raw.js';
import type { Notification } from '../../protocol/mcp/model.js';

/**
 * Maximum number of events of one call that wait for plugins. Further progress and log messages are dropped, because
 * clients tolerate their loss.
 */
const MOST_WAITING = 100;

/** The event after all plugins; undefined if one of them dropped it. Throws `plugin_failed`. */
export async function passedEvent(
  plugins: readonly ActivePlugin[],
  view: CallView,
  event: JsonObject,
  check: (before: JsonObject, after: JsonObject) => boolean,
  mayDrop = true,
): Promise<JsonObject | undefined> {
  let current = event;
  for (const each of plugins) {
    const decision = await each.run(
      'onEvent',
      view,
      (call) => each.plugin.onEvent?.(call, copied(current)),
      (answer) => {
        const read = eventDecision(answer);
        if (read && 'event' in read && !check(current, read.event))
          throw new InvalidAnswer('event must be an event of the same kind');
        if (read && 'drop' in read && !mayDrop) throw new InvalidAnswer('the event that ends a task cannot be dropped');
        return read;
      },
      'unknown',
    );
    if (!decision) continue;
    if ('drop' in decision) return undefined;
    current = decision.event;
  }
  return current;
}

/** The notifications of one MCP call, in order. */
export class NotificationChain {
  private last: Promise<void> | undefined;
  private waiting = 0;
  /** Set when a closed plugin failed: later notifications are dropped without waiting for the plugin again. */
  private failed = false;

  constructor(
    private readonly plugins: readonly ActivePlugin[],
    private readonly view: CallView,
    private readonly notify: (notification: Notification) => void,
  ) {}

  push(notification: Notification): void {
    if (this.failed || this.waiting >= MOST_WAITING) return;
    this.waiting += 1;
    this.last = (this.last ?? Promise.resolve())
      .then(() => (this.failed ? undefined : this.pass(notification)))
      .catch((error: unknown) => {
        this.failed = true;
        if (!(error instanceof ProtocolError)) throw error;
      })
      .finally(() => {
        this.waiting -= 1;
      });
  }

  /** Resolves once every notification has passed, so that no notification follows the result. */
  async passed(): Promise<void> {
    await this.last;
  }

  private async pass(notification: Notification): Promise<void> {
    const { method, params } = notification;
    const shown = await passedEvent(this.plugins, this.view, { method, params }, isSameNotification);
    if (shown) this.notify(shown as unknown as Notification);
  }
}

const isSameNotification = (before: JsonObject, after: JsonObject): boolean =>
  after['method'] === before['method'] &&
  isObject(after['params']) &&
  isObject(before['params']) &&
  after['params']['progressToken'] === before['params']['progressToken'];

/**
 * Passes the status message of a server's task through the plugins as an event. A plugin that drops the event, or that
 * is closed and fails, removes the message.
 */
export async function passedStatusMessage(
  plugins: readonly ActivePlugin[],
  view: CallView,
  task: RawObject,
): Promise<RawObject> {
  const hears = plugins.filter(({ hooks }) => hooks.has('onEvent'));
  const statusMessage = hears.length > 0 ? task.get('statusMessage') : undefined;
  if (typeof statusMessage !== 'string') return task;
  const params = { taskId: task.get('taskId'), status: task.get('status'), statusMessage };
  let shown: JsonObject | undefined;
  try {
    shown = await passedEvent(hears, view, { method: 'notifications/tasks', params }, isSameStatus);
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
  }
  const text = isObject(shown?.['params']) ? shown['params']['statusMessage'] : undefined;
  if (text === statusMessage) return task;
  return task.edit({ statusMessage: text === undefined ? undefined : JSON.stringify(text) });
}

const isSameStatus = (before: JsonObject, after: JsonObject): boolean => {
  const [old, now] = [before['params'], after['params']];
  if (!isObject(old) || !isObject(now) || after['method'] !== before['method']) return false;
  const text = now['statusMessage'];
  return (
    old['taskId'] === now['taskId'] &&
    old['status'] === now['status'] &&
    (text === undefined || typeof text === 'string')
  );
};

/** Passes the events of push notifications, which leave the gateway outside of any call; undefined without plugins. */
export function pushedEvents(
  plugins: readonly ActivePlugin[],
): ((task: TaskKey, event: StreamResponse) => Promise<StreamResponse | undefined>) | undefined {
  const hears = plugins.filter(({ hooks }) => hooks.has('onEvent'));
  if (hears.length === 0) return undefined;
  return async ({ agent, owner, id }, event) => {
    const target = agentTarget(agent);
    const concerned = hears.filter(({ scope }) => scope.covers(PUSHED, target));
    if (concerned.length === 0) return event;
    const caller = { ...GATEWAY, principal: ownerOf(owner) };
    const exchange = { cancellation: new Cancellation(), extensions: [], forward: {} };
    const call = { agent, operation: PUSHED, request: { value: { id } }, dialect: NATIVE, exchange } as const;
    const route = { target, forward: () => Promise.reject(new ProtocolError('internal', 'A push is not a call')) };
    const view = new CallView(new A2aContext(caller, call, route, performance.now()));
    try {
      return (await passedStreamEvent(concerned.toReversed(), view, { value: event }))?.value;
    } catch (error) {
      // A closed plugin failed. The receiver gets no notification, but can still read the task.
      if (error instanceof ProtocolError) return undefined;
      throw error;
    }
  };
}

/** A receiver of push notifications gets the events that a subscriber of the task gets. */
const PUSHED = 'SubscribeToTask';

/** This is not a generator, because a generator delays the end of a reader that leaves until the next event arrives. */
export function passedEvents(
  plugins: readonly ActivePlugin[],
  view: CallView,
  events: Events,
  /** The error that the reader gets if the stream fails. */
  failure: (error: unknown) => Promise<unknown> = async (error) => error,
): Events {
  return {
    [Symbol.asyncIterator]: () => {
      const iterator = events[Symbol.asyncIterator]();
      const next = async (): Promise<IteratorResult<Passed<StreamResponse>>> => {
        for (;;) {
          const step = await iterator.next().catch(async (error: unknown) => {
            throw await failure(error);
          });
          if (step.done) return step;
          const value = await passedStreamEvent(plugins, view, step.value).catch(async (error: unknown) => {
            await iterator.return?.();
            throw error;
          });
          if (value) return { done: false, value };
        }
      };
      return {
        next,
        return: async (value?: unknown) => (await iterator.return?.(value)) ?? { done: true, value: undefined },
      };
    },
  };
}

/** The same object if no plugin changed the event. */
async function passedStreamEvent(
  plugins: readonly ActivePlugin[],
  view: CallView,
  event: Passed<StreamResponse>,
): Promise<Passed<StreamResponse> | undefined> {
  const before = event.value as unknown as JsonObject;
  const after = await passedEvent(plugins, view, before, isSameStreamEvent, !isFinal(event.value));
  if (after === undefined) return undefined;
  return after === before ? event : { value: after as unknown as StreamResponse };
}

/** A client waits for the event that ends the task, so a plugin cannot drop it. */
const isFinal = ({ message, task, statusUpdate }: StreamResponse): boolean =>
  message !== undefined || isTerminal((task ?? statusUpdate)?.status.state ?? 'TASK_STATE_UNSPECIFIED');

const PAYLOADS = ['message', 'task', 'statusUpdate', 'artifactUpdate'] as const;

export const isSameStreamEvent = (before: JsonObject, after: JsonObject): boolean =>
  PAYLOADS.every((name) => isSameThing(before[name], after[name]));

/** Whether a changed message, task or event still has the same ids and the same state. */
export function isSameThing(before: unknown, after: unknown): boolean {
  if (!isObject(before) || !isObject(after)) return before === after;
  const same = (key: string): boolean => before[key] === after[key];
  if (!['id', 'taskId', 'contextId', 'messageId', 'role'].every(same)) return false;
  const [old, now] = [before['status'], after['status']];
  return isObject(old) ? isObject(now) && now['state'] === old['state'] : true;
}

const copied = (value: JsonObject): JsonObject => JSON.parse(JSON.stringify(value)) as JsonObject;
