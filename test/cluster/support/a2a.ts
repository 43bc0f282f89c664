/** Real agents behind several replicas, clients of any replica, and recorders of their events. */
import pg from 'pg';
import type { Column, RunningAgent } from '../../fixtures/a2a/agent.js';
import { COLUMNS, startAgent } from '../../fixtures/a2a/agents.js';
import type { Client } from '../../fixtures/a2a/client.js';
import { connectClient, ROWS } from '../../fixtures/a2a/clients.js';
import { type Event, type State, type Task, TERMINAL } from '../../fixtures/a2a/views.js';
import type { GatewayConfig } from '../../support/gateway.js';
import { ALICE } from './replicas.js';

/** The lease of a follower, and the interval at which replicas look for expired leases. */
export const LEASE = 6_000;
export const NOTICED = LEASE + LEASE / 3 + 2_000;

export const column = (name: string): Column => COLUMNS.find((one) => one.name === name)!;

export const startAgents = (...names: readonly string[]): Promise<RunningAgent[]> =>
  Promise.all(names.map((name) => startAgent(column(name))));

export const settingsFor = (agents: readonly RunningAgent[]): GatewayConfig => ({
  agents: Object.fromEntries(agents.map(({ column: { name }, url }) => [name, { url }])),
  egress: { allowPrivate: true },
});

export function connectTo(
  { url }: { readonly url: string },
  agent: string,
  { row = '1.0 jsonrpc', token = ALICE }: { row?: string; token?: string } = {},
): Promise<Client> {
  const found = ROWS.find(({ name }) => name === row)!;
  return connectClient(found, { url: `${url}/a2a/${agent}`, headers: { authorization: `Bearer ${token}` } });
}

export const piecesOf = (task: Task | undefined): string[] =>
  (task?.artifacts.find(({ id }) => id === 'count')?.parts ?? []).map(({ text }) => text ?? '');

export const numbers = (count: number): string[] => Array.from({ length: count }, (_, i) => `${i + 1}`);

/** Reads a stream to its end, and builds the task from the events as a client would. */
export class Listener {
  readonly events: Event[] = [];
  /** The arrival time of each event. */
  readonly at: number[] = [];
  pieces: string[] = [];
  states: State[] = [];
  error: Error | undefined;
  /** The number of events after the end of the task. */
  late = 0;
  over = false;
  readonly ended: Promise<void>;

  constructor(stream: AsyncIterable<Event>) {
    this.ended = this.read(stream);
  }

  get id(): string {
    const [first] = this.events;
    if (first?.kind !== 'task') throw new Error(`the stream began with ${JSON.stringify(first)}`);
    return first.task.id;
  }

  get last(): State | undefined {
    return this.states.at(-1);
  }

  private async read(stream: AsyncIterable<Event>): Promise<void> {
    try {
      for await (const event of stream) this.take(event);
    } catch (error) {
      this.error = error as Error;
    }
    this.over = true;
  }

  private take(event: Event): void {
    if (this.last !== undefined && TERMINAL.has(this.last)) this.late += 1;
    this.events.push(event);
    this.at.push(performance.now());
    if (event.kind === 'task') {
      this.pieces = piecesOf(event.task);
      this.states.push(event.task.state);
    } else if (event.kind === 'status') this.states.push(event.state);
    else if (event.kind === 'artifact') {
      const texts = event.artifact.parts.map(({ text }) => text ?? '');
      this.pieces = event.append ? [...this.pieces, ...texts] : texts;
    }
  }
}

export interface StoredTask {
  readonly state: string;
  /** The replica that follows the task; empty if none does. */
  readonly follower: string;
  readonly seq: number;
  readonly events: readonly { readonly seq: number; readonly event: Record<string, unknown> }[];
}

/** A task as stored in the database. */
export async function storedTask(db: string, id: string): Promise<StoredTask> {
  const client = new pg.Client({ connectionString: db });
  await client.connect();
  try {
    const tasks = await client.query('SELECT state, seq, follower FROM agent_tasks WHERE id = $1', [id]);
    const events = await client.query('SELECT seq, json FROM agent_events WHERE id = $1 ORDER BY seq', [id]);
    return {
      state: tasks.rows[0].state,
      follower: tasks.rows[0].follower,
      seq: Number(tasks.rows[0].seq),
      events: events.rows.map(({ seq, json }) => ({ seq: Number(seq), event: JSON.parse(json) })),
    };
  } finally {
    await client.end();
  }
}

const stateOf = (event: Record<string, unknown>): string | undefined => {
  const { task, statusUpdate } = event as { [key: string]: { status: { state: string } } | undefined };
  return (task ?? statusUpdate)?.status.state;
};

/** The faults in the numbers and the order of a finished task's events; empty if there are none. */
export function faultsOf({ seq: last, events, state }: StoredTask): string[] {
  const faults: string[] = [];
  const seqs = events.map(({ seq }) => seq);
  if (seqs.join() !== numbers(last).join()) faults.push(`the events are numbered ${seqs.join()} of ${last}`);
  const ends = events.filter(({ event }) => /COMPLETED|CANCELED|FAILED|REJECTED/.test(stateOf(event) ?? ''));
  if (ends.length !== 1) faults.push(`the task ends ${ends.length} times`);
  if (ends[0]?.seq !== last) faults.push(`the end is ${ends[0]?.seq} of ${last}`);
  if (!/COMPLETED|CANCELED|FAILED|REJECTED/.test(state)) faults.push(`the task is ${state}`);
  return faults;
}

/** The text pieces in the stored events, in order; a snapshot among them would repeat some. */
export function piecesWritten({ events }: StoredTask): string[] {
  return events.slice(1).flatMap(({ event }) => {
    const { artifactUpdate, task } = event as {
      artifactUpdate?: { artifact: { parts: { text: string }[] } };
      task?: { artifacts: { parts: { text: string }[] }[] };
    };
    const parts = artifactUpdate?.artifact.parts ?? task?.artifacts[0]?.parts ?? [];
    return parts.map(({ text }) => text);
  });
}

/** The sequence numbers in the ids of notifications, each once, in the order of first arrival. */
export function deliveredNumbers(ids: readonly string[]): number[] {
  return [...new Set(ids)].map((id) => Number(id.split('.').at(-1)));
}
