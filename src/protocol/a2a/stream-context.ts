import { isObject, type JsonObject } from '../jsonrpc/raw.js';
import type { StreamContext } from './dialect.js';

/** The ids of the task that the request names, known before the first event of its stream. */
export function streamContext(request: object): StreamContext {
  const { id, message } = request as JsonObject;
  const about = isObject(message) ? message : undefined;
  const taskId = about ? about['taskId'] : id;
  const contextId = about?.['contextId'];
  return {
    ...(typeof taskId === 'string' && taskId !== '' && { taskId }),
    ...(typeof contextId === 'string' && contextId !== '' && { contextId }),
  };
}
