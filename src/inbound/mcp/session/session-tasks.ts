import { type Admission, ifVisible, serverTarget, visible } from '../../../core/admission.js';
import type { Caller, Cancellation } from '../../../core/caller.js';
import type { HostedTaskRecord } from '../../../core/era-bridge/hosted-task-record.js';
import type { HostedTasks } from '../../../core/era-bridge/hosted-tasks.js';
import { type Seal, SealBroken } from '../../../core/seal.js';
import { ProtocolError, UpstreamRpcError } from '../../../protocol/errors.js';
import { type JsonObject, RawObject } from '../../../protocol/jsonrpc/raw.js';
import { type InputRequest, type InputResponses, isObject } from '../../../protocol/mcp/model.js';
import { experimentalTask, isTerminal, relatedTo } from '../../../protocol/mcp/translate/task.js';

const PAGE = 100;
const CURSOR_TTL = 60 * 60 * 1000;
/**
 * The name of this list, which each of its cursors contains, because cursors of other lists are sealed for the same
 * purpose.
 */
const LIST = 'tasks/list';

/** The tasks of a client whose revision has its own form of tasks, written in that form. */
export class SessionTasks {
  constructor(
    private readonly tasks: HostedTasks,
    private readonly principal: string,
    /** If callers are not identified, a list would show all tasks to every caller (TSKL-09). */
    private readonly mayList: boolean,
    private readonly seal: Seal,
    private readonly admission: Pick<Admission, 'sees'>,
    /** Whether the view of the session has the server of a task. */
    private readonly inView: (server: string) => boolean = () => true,
  ) {}

  /** The capability that the session declares. */
  capability(): JsonObject {
    return { ...(this.mayList && { list: {} }), cancel: {}, requests: { tools: { call: {} } } };
  }

  async get(taskId: string): Promise<JsonObject> {
    return experimentalTask(await this.tasks.find(this.principal, taskId));
  }

  /** The tasks of the servers that the caller may see, each in the form of `tasks/get`. */
  async list(caller: Caller, cursor: unknown): Promise<JsonObject> {
    if (!this.mayList) throw new ProtocolError('method_not_found', 'Method not found: tasks/list');
    if (cursor !== undefined && typeof cursor !== 'string')
      throw new ProtocolError('invalid_cursor', 'A cursor must be a string');
    const after = cursor === undefined ? undefined : this.openCursor(cursor);
    const records = await this.tasks.list(this.principal, after, PAGE);
    const inView = records.filter(({ server }) => this.inView(server));
    const shown = await visible(this.admission, caller, inView, ({ server }) => serverTarget(server));
    const last = records.at(-1);
    return {
      tasks: shown.map(experimentalTask),
      ...(records.length === PAGE &&
        last && { nextCursor: this.seal.close('cursor', this.principal, [LIST, last.taskId], CURSOR_TTL) }),
    };
  }

  private openCursor(cursor: string): string {
    try {
      const [list, taskId] = this.seal.open('cursor', this.principal, cursor) as [string, string];
      if (list === LIST) return taskId;
    } catch (error) {
      // A cursor of another list is not a pair, and is refused.
      if (!(error instanceof SealBroken) && !(error instanceof TypeError)) throw error;
    }
    throw new ProtocolError('invalid_cursor', 'The cursor is invalid or has expired; list again without a cursor');
  }

  async cancel(taskId: string): Promise<JsonObject> {
    const { status } = await this.tasks.find(this.principal, taskId);
    if (isTerminal(status))
      throw new ProtocolError('task_not_cancelable', `The task is already ${status}`, { data: { taskId, status } });
    return experimentalTask(await this.tasks.cancel(this.principal, taskId));
  }

  /** Waits for the end of the task. While the task runs, asks the client the task's questions (TSKL-05, TSKL-07). */
  async result(
    taskId: string,
    ask: (question: InputRequest) => Promise<JsonObject>,
    cancellation: Cancellation,
  ): Promise<RawObject> {
    const seen = new Set<string>();
    for (;;) {
      const record = await this.tasks.next(this.principal, taskId, seen, cancellation);
      if (cancellation.cancelled) throw new ProtocolError('cancelled', 'The request was cancelled');
      if (isTerminal(record.status)) return outcomeOf(record);
      const open = Object.entries(record.inputRequests ?? {}).filter(([key]) => !seen.has(key));
      for (const [key] of open) seen.add(key);
      for (const [key, question] of open) void this.answer(taskId, key, question, ask, cancellation).catch(() => {});
    }
  }

  private async answer(
    taskId: string,
    key: string,
    question: InputRequest,
    ask: (question: InputRequest) => Promise<JsonObject>,
    cancellation: Cancellation,
  ): Promise<void> {
    const params = { ...question.params, _meta: relatedTo(taskId, question.params?.['_meta']) };
    const answers: InputResponses = { [key]: await ask({ ...question, params }) };
    // A client that stops waiting for the result has not answered, so the question stays open for the next request for
    // the result.
    if (cancellation.cancelled) return;
    await this.tasks.update(this.principal, taskId, answers);
  }

  /** Notifies of every change of a task until it ends, as long as the caller may see the server of the task. */
  follow(taskId: string, caller: () => Caller, tell: (params: JsonObject) => void): void {
    const following = this.tasks.onChange([taskId], (record) => {
      ifVisible(this.admission, caller(), serverTarget(record.server), () => tell(experimentalTask(record)));
      if (isTerminal(record.status)) following.stop();
    });
  }
}

/** The outcome in exactly the form of the response to the call itself. */
function outcomeOf(record: HostedTaskRecord): RawObject {
  if (record.result)
    return RawObject.from({ ...record.result, _meta: relatedTo(record.taskId, record.result['_meta']) });
  const { error } = record;
  if (isObject(error)) throw new UpstreamRpcError(Number(error['code']), String(error['message']), error['data']);
  throw new ProtocolError('cancelled', 'The task was cancelled');
}
