/** Runs the cases of a cell: one client against one agent, through a running gateway. */
import type { Column } from '../fixtures/a2a/agent.js';
import type { Client, Row } from '../fixtures/a2a/client.js';
import type { Case, Cell } from './case.js';
import { BOB, type Testbed } from './testbed.js';

export interface Outcome {
  readonly case: string;
  readonly ids: readonly string[];
  /** The error of a failed case. */
  readonly problem?: string;
}

/** The time limit of a case. */
const LIMIT = 90_000;

export async function runCell(
  testbed: Testbed,
  row: Row,
  column: Column,
  cases: readonly Case[],
  each: (outcome: Outcome) => void = () => {},
): Promise<Outcome[]> {
  const trying = cases.filter((one) => one.applies?.(row, column) ?? true);
  const open: Client[] = [];
  const outcomes: Outcome[] = [];
  const done = (one: Case, problem: string | undefined): void => {
    const outcome = { case: one.name, ids: one.ids, ...(problem !== undefined && { problem }) };
    outcomes.push(outcome);
    each(outcome);
  };
  const connect: Cell['connect'] = async (options, other = row) => {
    const client = await testbed.connect(other, column.name, options);
    open.push(client);
    return client;
  };
  try {
    const client = await connect();
    const stranger = await connect({ token: BOB });
    const cell: Cell = { testbed, row, column, agent: testbed.agent(column), client, stranger, connect };
    for (const one of trying) done(one, await problemOf(one.run(cell)));
  } catch (error) {
    for (const one of trying) done(one, `no connection: ${(error as Error).message}`);
  } finally {
    for (const client of open) client.close();
  }
  return outcomes;
}

async function problemOf(run: Promise<void>): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${LIMIT / 1_000} s`)), LIMIT);
  });
  try {
    await Promise.race([run, late]);
    return undefined;
  } catch (error) {
    return (error as Error).message.split('\n').slice(0, 14).join(' ').slice(0, 500) || String(error);
  } finally {
    clearTimeout(timer);
  }
}
