/**
 * The thread that owns the SQLite connection. Transactions that arrive during the fsync of a commit share the next
 * commit, so the number of fsyncs does not grow with the number of writers. No fsync blocks the event loop of the
 * gateway.
 */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { sleep } from '../../core/timing.js';
import { monotonicMs } from '../clock.js';
import { SQLITE_CLOCK } from '../sql-dialect.js';
import { type Connection, loadDriver, type Prepared, primaryCode } from './driver.js';
import type { Failure, FromWorker, NumberedStatement, Reply, Request, ToWorker, WorkerOptions } from './messages.js';

const port = parentPort!;
const options = workerData as WorkerOptions;

/** Time for which one attempt at the write lock may block this thread, and with this thread all waiting reads. */
const LOCK_SLICE_MS = 50;
/** Limit on transactions per commit, which bounds the time of a commit. */
const MAX_GROUP = 2_000;
const MAX_PREPARED = 300;

const CONSTRAINT = 19;
const BUSY = 5;
/** NOMEM, INTERRUPT, IOERR, FULL, CANTOPEN: SQLite may have rolled back the whole transaction. */
const WHOLE_TRANSACTION = new Set([7, 9, 10, 13, 14]);
/** The codes above, and PERM, BUSY, LOCKED, READONLY, CORRUPT, PROTOCOL, NOTADB: reported as `unavailable`. */
const UNAVAILABLE = new Set([3, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 26]);

// This variable keeps the connection alive: with the Node 20 driver a statement alone does not.
let db: Connection;
const texts = new Map<number, string>();
const prepared = new Map<number, { statement: Prepared; order: number[] }>();
const writes: Request[] = [];
let replies: Reply[] = [];
let commits: number[] = [];
let retry: NodeJS.Timeout | undefined;
let closing = false;

function failure(error: unknown): Failure {
  const primary = primaryCode(error);
  const message = error instanceof Error ? error.message : String(error);
  if (primary === CONSTRAINT) return { code: 'constraint', message };
  return { code: UNAVAILABLE.has(primary) ? 'unavailable' : 'internal', message };
}

/** Turns `$2 … $1 … $2` into `? … ? … ?` with the order 1, 0, 1, because both drivers support anonymous parameters. */
function prepare(number: number): { statement: Prepared; order: number[] } {
  const known = prepared.get(number);
  if (known) return known;
  const order: number[] = [];
  const text = texts.get(number)!.replace(/\$(\d+)/g, (_, n: string) => {
    order.push(Number(n) - 1);
    return '?';
  });
  const entry = { statement: db.prepare(text), order };
  if (prepared.size >= MAX_PREPARED) prepared.delete(prepared.keys().next().value as number);
  prepared.set(number, entry);
  return entry;
}

function run([text, params]: NumberedStatement): unknown[] {
  const { statement, order } = prepare(text);
  return statement.all(...order.map((i) => params[i] ?? null));
}

function answer(reply: Reply): void {
  replies.push(reply);
}

function flush(): void {
  if (replies.length === 0) return;
  port.postMessage((commits.length > 0 ? { replies, commits } : { replies }) satisfies FromWorker);
  replies = [];
  commits = [];
}

function backup({ id, path }: NonNullable<ToWorker['backup']>): void {
  try {
    db.prepare('VACUUM INTO ?').all(path);
    answer({ id, results: [] });
  } catch (error) {
    answer({ id, failure: failure(error) });
  }
}

/** Must be called only while no transaction is open. */
function take(message: ToWorker): void {
  if (message.backup) backup(message.backup);
  if (message.close) closing = true;
  for (const [number, sql] of message.texts ?? []) texts.set(number, sql);
  for (const request of message.requests) {
    if (request.kind === 'write') {
      writes.push(request);
      continue;
    }
    // Reads run outside the write transaction: they must not see changes that a failed commit rolls back.
    try {
      answer({ id: request.id, results: request.statements.map(run) });
    } catch (error) {
      answer({ id: request.id, failure: failure(error) });
    }
  }
}

function drain(): void {
  for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) take(next.message as ToWorker);
  flush();
}

function failOverdue(error: unknown): void {
  const limit = monotonicMs() - options.busyTimeoutMs;
  while (writes.length > 0 && writes[0]!.at <= limit) answer({ id: writes.shift()!.id, failure: failure(error) });
}

/** Runs the statements of one caller inside the shared transaction. Returns false if the whole transaction is lost. */
function runOne(request: Request, done: Reply[]): boolean {
  const many = request.statements.length > 1;
  try {
    if (many) db.exec('SAVEPOINT one');
    const results = request.statements.map(run);
    if (many) db.exec('RELEASE one');
    done.push({ id: request.id, results });
    return true;
  } catch (error) {
    done.push({ id: request.id, failure: failure(error) });
    if (WHOLE_TRANSACTION.has(primaryCode(error))) return false;
    try {
      if (many) db.exec('ROLLBACK TO one; RELEASE one');
      return true;
    } catch {
      return false;
    }
  }
}

function commitGroup(): void {
  const group = writes.splice(0, MAX_GROUP);
  const done: Reply[] = [];
  let lost: unknown;
  try {
    for (const request of group) {
      if (!runOne(request, done)) throw new Error('a write to the database file failed');
    }
    db.exec('COMMIT');
  } catch (error) {
    lost = error;
    try {
      db.exec('ROLLBACK');
    } catch {
      // SQLite has already rolled back.
    }
  }
  if (lost === undefined) {
    commits.push(group.length);
    for (const reply of done) answer(reply);
    return;
  }
  // No transaction of the group is on disk, so all of them fail. A request that had failed already keeps its own error.
  const shared: Failure = { ...failure(lost), code: 'unavailable' };
  const reasons = new Map(done.map((reply) => [reply.id, reply.failure]));
  for (const request of group) answer({ id: request.id, failure: reasons.get(request.id) ?? shared });
}

function work(): void {
  if (retry) clearTimeout(retry);
  retry = undefined;
  while (writes.length > 0) {
    try {
      db.exec('BEGIN IMMEDIATE');
    } catch (error) {
      if (primaryCode(error) === BUSY) {
        // Another process holds the write lock: serve reads meanwhile, and fail writes that waited too long.
        failOverdue(error);
        flush();
        if (writes.length === 0) break;
        retry = setTimeout(work, 5);
        return;
      }
      for (const request of writes.splice(0)) answer({ id: request.id, failure: failure(error) });
      break;
    }
    commitGroup();
    flush();
    drain();
  }
  flush();
  if (closing) shut();
}

function shut(): void {
  try {
    prepared.clear();
    db.close();
  } finally {
    port.postMessage({ replies: [], closed: true } satisfies FromWorker);
    port.close();
  }
}

async function open(): Promise<void> {
  const { DatabaseSync } = await loadDriver();
  const deadline = monotonicMs() + options.busyTimeoutMs;
  for (;;) {
    const opened = new DatabaseSync(options.path);
    try {
      db = opened;
      db.exec(`PRAGMA busy_timeout=${LOCK_SLICE_MS}`);
      // The switch to WAL fails while another process opens the same new file; a retry succeeds.
      db.exec('PRAGMA journal_mode=WAL');
      db.exec('PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA wal_autocheckpoint=1000');
      db.function(SQLITE_CLOCK, monotonicMs);
      db.prepare('SELECT count(*) FROM sqlite_master').all();
      return;
    } catch (error) {
      if (primaryCode(error) !== BUSY || monotonicMs() > deadline) throw error;
      opened.close();
      await sleep(10 + Math.random() * 20);
    }
  }
}

try {
  await open();
  port.postMessage({ replies: [], opened: true } satisfies FromWorker);
  port.on('message', (message: ToWorker) => {
    take(message);
    drain();
    if (!retry || closing) work();
  });
} catch (error) {
  port.postMessage({ replies: [], openFailure: failure(error) } satisfies FromWorker);
  port.close();
}
