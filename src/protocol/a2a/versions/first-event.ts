import type { StreamContext } from '../dialect.js';
import type { StreamResponse, TaskStatus } from '../model.js';

/**
 * A stream of 1.0 begins with a task or a message (S-41). If an agent's stream does not, the task is synthesised from
 * its first event (G-28). A stream of a known task needs no synthesised task, because the caller already has the task.
 */
export function firstIsTask(context: StreamContext): (event: StreamResponse) => StreamResponse[] {
  let begun = context.taskId !== undefined;
  return (event) => {
    const update = event.statusUpdate ?? event.artifactUpdate;
    const missing = !begun && update !== undefined;
    begun = true;
    if (!missing) return [event];
    const status: TaskStatus = event.statusUpdate?.status ?? { state: 'TASK_STATE_WORKING' };
    return [{ task: { id: update.taskId, contextId: update.contextId, status } }, event];
  };
}
