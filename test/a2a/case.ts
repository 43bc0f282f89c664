/** The definition of a matrix case, and helpers for cases. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Column, RunningAgent } from '../fixtures/a2a/agent.js';
import { release } from '../fixtures/a2a/behaviours.js';
import type { Client, Refusal, Row, Send, Sent } from '../fixtures/a2a/client.js';
import { type Event, type Task, TERMINAL } from '../fixtures/a2a/views.js';
import { refusalOf } from '../fixtures/a2a/wire.js';
import type { ConnectOptions, Testbed } from './testbed.js';

export interface Case {
  readonly name: string;
  /** The requirements that the case proves. */
  readonly ids: readonly string[];
  /** False if the version of the client or of the agent cannot express the case. */
  applies?(row: Row, column: Column): boolean;
  /** True if the result does not depend on the agent. The case then runs with one agent only. */
  readonly once?: boolean;
  run(cell: Cell): Promise<void>;
}

export interface Cell {
  readonly testbed: Testbed;
  readonly row: Row;
  readonly column: Column;
  readonly agent: RunningAgent;
  readonly client: Client;
  /** The same client with the token of another caller. */
  readonly stranger: Client;
  /** Connects another client to the same agent; `row` selects another kind of client. */
  connect(options?: ConnectOptions, row?: Row): Promise<Client>;
}

let count = 0;
/** A unique word. */
export const mark = (): string => `mark-${process.pid}-${++count}`;

export const say = (text: string, more: Omit<Send, 'parts'> = {}): Send => ({ parts: [{ text }], ...more });

export function taskOf(sent: Sent): Task {
  assert.ok(sent.task, `a task was expected, not ${JSON.stringify(sent)}`);
  return sent.task;
}

/** All events of a stream. `opened` is called after the first event: from then on no event is missed. */
export async function all(events: AsyncIterable<Event>, opened = (): void => {}): Promise<Event[]> {
  const list: Event[] = [];
  for await (const event of events) if (list.push(event) === 1) opened();
  return list;
}

/** A task that runs until the test releases it, however slow the machine is. */
export async function held(client: Client): Promise<{ readonly id: string; release(): void }> {
  const word = mark();
  for await (const event of client.stream(say(`hold ${word}`))) {
    const id = idOf(event);
    if (id !== undefined) return { id, release: () => release(word) };
  }
  throw new Error('no event of the stream has a task id');
}

export async function until<T>(
  what: string,
  find: () => Promise<T | undefined> | T | undefined,
  limit = 60_000,
): Promise<T> {
  const end = Date.now() + limit;
  for (;;) {
    const found = await find();
    if (found !== undefined) return found;
    if (Date.now() > end) throw new Error(`timed out waiting for ${what}`);
    await sleep(25);
  }
}

export const finished = (client: Client, id: string): Promise<Task> =>
  until(`the end of task ${id}`, async () => {
    const task = await client.get(id);
    return TERMINAL.has(task.state) ? task : undefined;
  });

/** The task id of an event. */
export const idOf = (event: Event): string | undefined =>
  event.kind === 'task' ? event.task.id : event.kind === 'message' ? undefined : event.taskId;

/** Whether the client or the agent uses the 0.3 proto, which lacks some members. */
export const isProto = ({ version, binding }: Row | Column, variant?: string): boolean =>
  version === '0.3' && binding !== 'jsonrpc' && variant !== 'schema';
export const lossy = (row: Row, column: Column): boolean => isProto(row) || isProto(column, column.variant);

interface Expected {
  readonly code: number;
  readonly first?: number;
  readonly http: readonly number[];
  readonly legacyHttp: readonly number[];
  readonly name: string;
  readonly grpc: number;
}

/**
 * The A2A errors in every binding. Those of 1.0 are those of its newest patch; those of 0.3 over HTTP are those that
 * its SDKs send.
 */
export const ERRORS = {
  TASK_NOT_FOUND: { code: -32001, http: [404], legacyHttp: [404], name: 'NOT_FOUND', grpc: 5 },
  TASK_NOT_CANCELABLE: { code: -32002, http: [400], legacyHttp: [400, 409], name: 'FAILED_PRECONDITION', grpc: 9 },
  UNSUPPORTED_OPERATION: { code: -32004, http: [400], legacyHttp: [400, 501], name: 'FAILED_PRECONDITION', grpc: 9 },
  VERSION_NOT_SUPPORTED: { code: -32009, http: [400], legacyHttp: [400], name: 'FAILED_PRECONDITION', grpc: 9 },
  EXTENSION_SUPPORT_REQUIRED: {
    code: -32008,
    first: -32004,
    http: [400],
    legacyHttp: [400],
    name: 'FAILED_PRECONDITION',
    grpc: 9,
  },
  INVALID_PARAMS: { code: -32602, http: [400], legacyHttp: [400], name: 'INVALID_ARGUMENT', grpc: 3 },
} satisfies Record<string, Expected>;
export type ErrorName = keyof typeof ERRORS;

/** Runs a request that must be refused, and reads the error from the wire. */
export async function refused(client: Client, run: () => Promise<unknown>): Promise<Refusal> {
  let result: unknown;
  try {
    result = await run();
  } catch (thrown) {
    return refusalOf(client, thrown as Error);
  }
  throw new Error(`expected a refusal, got ${JSON.stringify(result).slice(0, 300)}`);
}

/** Checks an error in the client's binding. */
export async function expectError(
  client: Client,
  name: ErrorName,
  run: () => Promise<unknown>,
  { stream = false } = {},
): Promise<void> {
  const { row } = client;
  const expected: Expected = ERRORS[name];
  const error = await refused(client, run);
  const said = JSON.stringify({ ...error, thrown: error.thrown.message });
  if (row.binding === 'grpc') {
    assert.equal(error.grpc, expected.grpc, said);
    if (name !== 'INVALID_PARAMS' && row.version === '1.0') assert.equal(error.reason, name, said);
  } else if (row.binding === 'rest' && row.version === '1.0') {
    assert.ok(expected.http.includes(error.http ?? 0) || (stream && error.http === 200), said);
    assert.equal(error.name, expected.name, said);
    if (name !== 'INVALID_PARAMS') assert.deepEqual([error.reason, error.domain], [name, 'a2a-protocol.org'], said);
  } else if (row.binding === 'rest') {
    assert.ok(expected.legacyHttp.includes(error.http ?? 0) || (stream && error.http === 200), said);
    assert.equal(error.code, expected.code, said);
  } else {
    assert.equal(error.code, (row.version === '0.1' ? expected.first : undefined) ?? expected.code, said);
    // JSON-RPC errors have HTTP status 200. The refusal of a stream may have an error status instead, because some
    // clients read streams only.
    if (!stream) assert.equal(error.http, 200, said);
    if (row.version === '1.0' && name !== 'INVALID_PARAMS')
      assert.deepEqual([error.reason, error.domain], [name, 'a2a-protocol.org'], said);
  }
  if (stream && row.binding !== 'grpc' && (row.version === '0.3' || row.version === '0.2')) {
    const { status, headers } = await client.wire();
    const events = headers['content-type']?.startsWith('text/event-stream') === true;
    assert.ok(events || status >= 400, `a refused stream came as HTTP ${status} ${headers['content-type']}`);
  }
}

export { assert, sleep };
