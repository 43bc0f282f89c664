import { Cancellation } from '../../core/caller.js';
import { type Call, failed, type Outcome, type ParkedCall } from '../../core/gateway.js';
import { sleep } from '../../core/timing.js';
import type { UpstreamCall } from '../../core/upstream.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import { type ClientCapabilities, type InputResponses, isObject } from '../../protocol/mcp/model.js';
import { readTask, type TaskView } from '../../protocol/mcp/translate/task.js';
import { gatewayCall } from './gateway-call.js';
import { invalidReply, timedOut } from './server-errors.js';

const DEFAULT_INTERVAL = 1_000;
const LEAST_INTERVAL = 50;
const MOST_INTERVAL = 30_000;

/** Sends a request of the task's caller. */
export type Send = (capabilities: ClientCapabilities, call: UpstreamCall) => Promise<Outcome>;

/**
 * Polls a task of a modern server until its end, for a caller that did not ask for a task. To that caller the task is
 * an ordinary call, possibly with questions.
 */
export class ModernTask implements ParkedCall {
  private readonly answered = new Set<string>();
  private finish: () => void = () => {};
  readonly over: Promise<void> = new Promise((resolve) => {
    this.finish = resolve;
  });
  private cancellation: Cancellation;
  private readonly callMax: number | undefined;

  constructor(
    private readonly name: string,
    private readonly send: Send,
    private readonly capabilities: ClientCapabilities,
    call: UpstreamCall,
    private readonly taskId: string,
    private interval: number | undefined,
  ) {
    this.cancellation = call.cancellation;
    this.callMax = call.timeouts?.callMax;
  }

  static of(
    name: string,
    send: Send,
    capabilities: ClientCapabilities,
    call: UpstreamCall,
    created: RawObject,
  ): ModernTask | undefined {
    const task = readTask(created.value());
    return task && new ModernTask(name, send, capabilities, call, task.taskId, task.pollIntervalMs);
  }

  async follow(): Promise<Outcome> {
    const { name, callMax } = this;
    const enough = new Cancellation();
    let error = new ProtocolError('cancelled', 'The request was cancelled');
    const stop = this.cancellation.onCancel(() => enough.cancel());
    const expire = (milliseconds: number): void => {
      error = timedOut({ name }, milliseconds);
      enough.cancel();
    };
    const timer = callMax === undefined ? undefined : setTimeout(expire, callMax, callMax);
    try {
      const outcome = await this.lookUntil(enough);
      if (outcome) return outcome;
      void this.tell('tasks/cancel', {});
      return this.end(failed(error));
    } finally {
      stop();
      clearTimeout(timer);
    }
  }

  private async lookUntil(enough: Cancellation): Promise<Outcome | undefined> {
    while (!enough.cancelled) {
      const view = await this.look(enough);
      if (enough.cancelled) break;
      if ('kind' in view) return this.end(view);
      const said = this.outcomeOf(view);
      if (said) return said;
      await sleep(intervalOf(view.pollIntervalMs ?? this.interval), { until: enough });
    }
    return undefined;
  }

  private end(outcome: Outcome): Outcome {
    this.finish();
    return outcome;
  }

  private async look(cancellation: Cancellation): Promise<TaskView | Outcome> {
    const call = { ...gatewayCall('tasks/get', { taskId: this.taskId }), cancellation };
    const outcome = await this.send(this.capabilities, call);
    if (outcome.kind === 'error') return failed(afterStart(outcome.error));
    if (outcome.kind !== 'complete') return outcome;
    return (
      readTask(outcome.result.value()) ?? failed(invalidReply({ name: this.name }, 'sent a task that cannot be read'))
    );
  }

  private outcomeOf(view: TaskView): Outcome | undefined {
    switch (view.status) {
      case 'completed':
        return this.end({ kind: 'complete', result: RawObject.from(view.result ?? { content: [] }) });
      case 'failed': {
        const { code, message, data } = view.error ?? {};
        return this.end(
          failed(
            new UpstreamRpcError(
              typeof code === 'number' ? code : -32603,
              typeof message === 'string' ? message : 'The task failed',
              data,
            ),
          ),
        );
      }
      case 'cancelled':
        return this.end(
          failed(
            new ProtocolError('upstream_error', `Server "${this.name}" cancelled the task`, { outcome: 'unknown' }),
          ),
        );
      case 'input_required': {
        const open = Object.entries(view.inputRequests ?? {}).filter(([key]) => !this.answered.has(key));
        if (open.length === 0) return undefined;
        return {
          kind: 'input_required',
          inputRequests: Object.fromEntries(open),
          requestState: undefined,
          parked: this,
        };
      }
      default:
        return undefined;
    }
  }

  async resume(call: Pick<Call, 'notify' | 'cancellation'>, answers: InputResponses): Promise<Outcome> {
    this.cancellation = call.cancellation;
    const given = Object.fromEntries(Object.entries(answers).filter(([, answer]) => isObject(answer)));
    for (const key of Object.keys(given)) this.answered.add(key);
    if (Object.keys(given).length > 0) await this.tell('tasks/update', { inputResponses: given });
    return this.follow();
  }

  private async tell(method: string, params: object): Promise<void> {
    await this.send(this.capabilities, gatewayCall(method, { taskId: this.taskId, ...params }));
  }

  abandon(): void {
    void this.tell('tasks/cancel', {});
    this.finish();
  }
}

/** The request for the state of a task may not have run, but the task itself may have. */
const afterStart = (error: ProtocolError | UpstreamRpcError): ProtocolError | UpstreamRpcError =>
  error instanceof ProtocolError
    ? new ProtocolError(error.reason, error.message, { ...error.detail, outcome: 'unknown' })
    : error;

/** Limits the poll interval of a server. The value may be of any type and too large for a timer. */
const intervalOf = (said: unknown): number =>
  Math.min(MOST_INTERVAL, Math.max(LEAST_INTERVAL, typeof said === 'number' ? said : DEFAULT_INTERVAL));
