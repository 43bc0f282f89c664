/**
 * Notes that the gateway writes into the metadata of tasks that it runs itself, to continue them later. They are stored
 * with the task and removed from every answer.
 */
import { PARLEY, type StreamResponse, type Task } from '../../../protocol/a2a/model.js';
import type { JsonObject, JsonValue } from '../../../protocol/jsonrpc/raw.js';
import { isObject } from '../../../protocol/mcp/model.js';
import type { AgentAnswer } from '../gateway.js';

/** The metadata key of a note. */
const NOTE = `${PARLEY}/note/v1`;

export const gatewayNote = (note: JsonValue): JsonObject => ({ [NOTE]: note });
export const noteIn = (metadata: JsonObject | undefined): JsonValue | undefined => metadata?.[NOTE];

/** The event without notes. Returns the same object if the event has no notes. */
export function outwardEvent(event: StreamResponse): StreamResponse {
  const { task, statusUpdate } = event;
  if (task) {
    const shown = outwardTask(task);
    return shown === task ? event : { ...event, task: shown };
  }
  const message = statusUpdate?.status.message;
  if (!statusUpdate || (noteIn(message?.metadata) ?? noteIn(statusUpdate.metadata)) === undefined) return event;
  const status = { ...statusUpdate.status, ...(message && { message: withoutNote(message) }) };
  return { ...event, statusUpdate: { ...withoutNote(statusUpdate), status } };
}

export function outwardTask(task: Task): Task {
  const { status, history } = task;
  const own = noteIn(task.metadata) !== undefined;
  const said = status.message !== undefined && noteIn(status.message.metadata) !== undefined;
  if (!own && !said && !history?.some(({ metadata }) => noteIn(metadata) !== undefined)) return task;
  return {
    ...(own ? withoutNote(task) : task),
    ...(status.message && { status: { ...status, message: withoutNote(status.message) } }),
    ...(history && { history: history.map(withoutNote) }),
  };
}

/** Removes notes from a result, and from the events of a stream as they are read. */
export function outwardAnswer(answer: AgentAnswer): AgentAnswer {
  if (answer.kind !== 'result' || !isObject(answer.result.value)) return answer;
  const { value } = answer.result;
  const shown = outwardValue(value);
  return shown === value ? answer : { ...answer, result: { value: shown } };
}

function outwardValue(value: JsonObject): JsonObject {
  const { tasks, task, status } = value;
  if (isObject(status)) return outwardTask(value as unknown as Task) as unknown as JsonObject;
  if (isObject(task)) {
    const shown = outwardTask(task as unknown as Task) as unknown as JsonObject;
    return shown === task ? value : { ...value, task: shown };
  }
  if (!Array.isArray(tasks)) return value;
  return { ...value, tasks: tasks.map((each) => (isObject(each) ? outwardValue(each) : each)) };
}

export function withoutNote<T extends { metadata?: JsonObject }>(thing: T): T {
  if (noteIn(thing.metadata) === undefined) return thing;
  const { metadata = {}, ...rest } = thing;
  const { [NOTE]: _, ...others } = metadata;
  return { ...rest, ...(Object.keys(others).length > 0 && { metadata: others }) } as T;
}
