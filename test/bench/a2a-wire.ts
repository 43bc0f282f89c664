/** The messages of the A2A bench and their answers. Calls differ only in one id. */
export const FIRST_ID = 10_000_000;
export const ID_WIDTH = 8;

/** The kind of answer: a direct reply, or a finished task. */
export type Kind = 'message' | 'task';

const TEXT = 'The quick brown fox said good morning to the lazy dog, and the dog did not look up. '.repeat(2).trim();
const AT = '2026-01-01T00:00:00.000Z';

export const callBody = (kind: Kind, id: number): string =>
  JSON.stringify({
    jsonrpc: '2.0',
    id,
    method: 'SendMessage',
    params: { message: { messageId: `call-${id}`, role: 'ROLE_USER', parts: [{ text: `${kind} ${id}` }] } },
  });

export function resultOf(kind: Kind, id: string): object {
  if (kind === 'message')
    return {
      message: {
        messageId: `reply-${id}`,
        contextId: `context-${id}`,
        role: 'ROLE_AGENT',
        parts: [{ text: `mark-${id} ${TEXT}` }],
      },
    };
  return {
    task: {
      id: `task-${id}`,
      contextId: `context-${id}`,
      status: { state: 'TASK_STATE_COMPLETED', timestamp: AT },
      artifacts: [{ artifactId: 'answer', parts: [{ text: `mark-${id} ${TEXT}` }] }],
      history: [
        {
          messageId: `call-${id}`,
          contextId: `context-${id}`,
          taskId: `task-${id}`,
          role: 'ROLE_USER',
          parts: [{ text: `task ${id}` }],
        },
      ],
    },
  };
}

/** The number of events of a stream, including the task and the end. */
export const EVENTS = 1_000;

export const streamBody = (id: number, pace: number): string =>
  JSON.stringify({
    jsonrpc: '2.0',
    id,
    method: 'SendStreamingMessage',
    params: { message: { messageId: `call-${id}`, role: 'ROLE_USER', parts: [{ text: `stream ${pace} ${id}` }] } },
  });

/** An event of a stream, with its send time by the monotonic clock of the machine. */
export function eventOf(id: string, number: number): object {
  const ids = { taskId: `task-${id}`, contextId: `context-${id}` };
  const metadata = { sent: process.hrtime.bigint().toString() };
  if (number === 0)
    return {
      task: {
        id: ids.taskId,
        contextId: ids.contextId,
        status: { state: 'TASK_STATE_WORKING', timestamp: AT },
        metadata,
      },
    };
  if (number === EVENTS - 1)
    return { statusUpdate: { ...ids, status: { state: 'TASK_STATE_COMPLETED', timestamp: AT }, metadata } };
  return {
    artifactUpdate: {
      ...ids,
      artifact: { artifactId: 'answer', parts: [{ text: `piece ${number} ` }] },
      append: number > 1,
      lastChunk: number === EVENTS - 2,
      metadata,
    },
  };
}

export const cardOf = (url: string): object => ({
  name: 'bench',
  description: 'The agent of the bench.',
  version: '1.0.0',
  supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
  capabilities: { streaming: true, pushNotifications: false },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [{ id: 'bench', name: 'Bench', description: 'Answers at once.', tags: ['bench'] }],
});

export type Job =
  | {
      readonly what: 'calls';
      readonly url: string;
      readonly kind: Kind;
      readonly connections: number;
      readonly milliseconds: number;
      /** The job ends early when it has made this number of calls. */
      readonly calls?: number;
    }
  | { readonly what: 'stream'; readonly url: string; readonly pace: number };

export interface CallFigures {
  readonly calls: number;
  readonly seconds: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly wrong: number;
  readonly sample?: string;
  /** CPU microseconds of the generator per call. */
  readonly own: number;
}

export interface StreamFigures {
  /** Milliseconds from the agent to the client, over the events of one stream. */
  readonly p50: number;
  readonly p99: number;
  /** Milliseconds for the whole stream. */
  readonly whole: number;
  readonly wrong: number;
  readonly sample?: string;
}
