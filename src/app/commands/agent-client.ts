/** The A2A requests of the command line to a running gateway. */
import { randomUUID } from 'node:crypto';
import { sleep } from '../../core/timing.js';
import { NATIVE } from '../../protocol/a2a/dialect.js';
import { VERSION_HEADER } from '../../protocol/a2a/version-behavior.js';

interface Part {
  readonly text?: string;
  readonly data?: unknown;
  readonly url?: string;
  readonly filename?: string;
}

interface Message {
  readonly parts?: readonly Part[];
}

export interface AgentTask {
  readonly id: string;
  readonly contextId?: string;
  readonly status: { readonly state: string; readonly message?: Message };
  readonly artifacts?: readonly { readonly name?: string; readonly parts?: readonly Part[] }[];
}

export type AgentReply = { readonly task: AgentTask } | { readonly message: Message };

export interface SendOptions {
  /** Posts one JSON-RPC request to the agent. */
  readonly post: (body: object, headers: Readonly<Record<string, string>>) => Promise<unknown>;
  readonly text: string;
  readonly taskId?: string | undefined;
  readonly contextId?: string | undefined;
  /** Time limit for the whole task of the agent, in milliseconds. */
  readonly timeout: number;
  readonly changed?: (task: AgentTask) => void;
}

const RUNNING = new Set(['TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING', 'TASK_STATE_UNSPECIFIED']);
/** Milliseconds between two reads of a running task; the interval grows. */
const FIRST_PAUSE = 200;
const LONGEST_PAUSE = 2_000;

/** Sends a text to an agent, and waits until its task ends or needs an answer. */
export async function sendText({ post, text, taskId, contextId, timeout, changed }: SendOptions): Promise<AgentReply> {
  const call = async (method: string, params: object): Promise<unknown> => {
    const answer = (await post({ jsonrpc: '2.0', id: 1, method, params }, { [VERSION_HEADER]: NATIVE })) as {
      result?: unknown;
      error?: { message?: string };
    };
    if (answer.error) throw new Error(answer.error.message ?? 'the agent refused the message');
    return answer.result;
  };
  const message = {
    messageId: randomUUID(),
    role: 'ROLE_USER',
    parts: [{ text }],
    ...(taskId !== undefined && { taskId }),
    ...(contextId !== undefined && { contextId }),
  };
  const end = performance.now() + timeout;
  const reply = (await call('SendMessage', { message })) as AgentReply;
  if (!('task' in reply)) return reply;
  let { task } = reply;
  for (let pause = FIRST_PAUSE; RUNNING.has(task.status.state); pause = Math.min(pause * 2, LONGEST_PAUSE)) {
    changed?.(task);
    if (performance.now() > end) break;
    await sleep(pause);
    task = (await call('GetTask', { id: task.id })) as AgentTask;
  }
  return { task };
}

/** The texts of a reply: the texts of its artifacts, or of its last message. */
export function replyTexts(reply: AgentReply): string[] {
  const of = (parts: readonly Part[] = []): string[] =>
    parts.map(
      ({ text, data, url, filename }) => text ?? (data !== undefined ? JSON.stringify(data) : (url ?? filename ?? '')),
    );
  if ('message' in reply) return of(reply.message.parts);
  const { artifacts = [], status } = reply.task;
  const found = artifacts.flatMap(({ parts }) => of(parts));
  return found.length > 0 ? found : of(status.message?.parts);
}
