/**
 * The load generator of the A2A bench. It keeps connections open on bare sockets, each with one call under way, and
 * compares every byte of every answer. Or it reads one stream whose events contain their send times.
 *
 * Messages over IPC: a Job comes in; 'ready' goes out when all connections are set up; 'go' comes in; figures go out.
 */

import { connect, type Socket } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import {
  type CallFigures,
  callBody,
  EVENTS,
  FIRST_ID,
  ID_WIDTH,
  type Job,
  resultOf,
  type StreamFigures,
  streamBody,
} from './a2a-wire.js';

type Calls = Extract<Job, { what: 'calls' }>;

let lastId = FIRST_ID + (process.pid % 1_000) * 10_000;

const httpText = (url: URL, body: string, accept = 'application/json'): string =>
  `POST ${url.pathname} HTTP/1.1\r\nhost: ${url.host}\r\na2a-version: 1.0\r\naccept: ${accept}\r\n` +
  `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

function places(body: Buffer, id: number): number[] {
  const found: number[] = [];
  for (let at = body.indexOf(String(id)); at >= 0; at = body.indexOf(String(id), at + 1)) found.push(at);
  return found;
}

class Connection {
  private readonly socket: Socket;
  private request!: Buffer;
  private requestPlaces!: number[];
  private expected!: Buffer;
  private expectedPlaces!: number[];
  private got: Buffer[] = [];
  private size = 0;
  private began = 0;
  private take: ((head: string, body: Buffer) => void) | undefined;
  private run: Run | undefined;

  constructor(
    private readonly job: Calls,
    private readonly url: URL,
  ) {
    this.socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
    this.socket.on('data', (chunk: Buffer) => this.receive(chunk));
    this.socket.on('error', (error) => this.lost(error.message));
    this.socket.on('close', () => this.lost('the connection was closed'));
  }

  private lost(why: string): void {
    const { run } = this;
    this.run = undefined;
    this.socket.destroy();
    run?.lost(why);
  }

  private receive(chunk: Buffer): void {
    this.got.push(chunk);
    this.size += chunk.length;
    const all = this.got.length === 1 ? chunk : Buffer.concat(this.got, this.size);
    const end = all.indexOf('\r\n\r\n');
    if (end < 0) return;
    const head = all.toString('latin1', 0, end);
    const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? Number.NaN);
    if (Number.isNaN(length)) {
      this.lost(`an answer without a length: ${all.toString('utf8', 0, 500)}`);
      return;
    }
    if (all.length < end + 4 + length) return;
    this.got = [];
    this.size = 0;
    this.take?.(head, all.subarray(end + 4, end + 4 + length));
  }

  /** Makes one call and reads its complete answer; all later answers differ only in the id. */
  async prepare(): Promise<void> {
    const id = ++lastId;
    this.request = Buffer.from(httpText(this.url, callBody(this.job.kind, id)));
    this.requestPlaces = places(this.request, id);
    const { head, body } = await new Promise<{ head: string; body: Buffer }>((resolve) => {
      this.take = (head, body) => resolve({ head, body });
      this.socket.write(this.request);
    });
    const said = JSON.parse(body.toString()) as { id: number; result?: object };
    const right = resultOf(this.job.kind, String(id));
    if (!head.startsWith('HTTP/1.1 200') || said.id !== id || !isDeepStrictEqual(said.result, right))
      throw new Error(`${this.job.url} answered ${head.slice(0, 20)} ${body.toString('utf8', 0, 800)}`);
    this.expected = Buffer.from(body);
    this.expectedPlaces = places(this.expected, id);
    this.take = (_, answer) => {
      const good = answer.equals(this.expected);
      if (!good) this.run?.differs(answer.toString('utf8', 0, 500));
      if (this.run?.done(performance.now() - this.began, good)) this.call();
    };
  }

  start(run: Run): void {
    this.run = run;
    this.call();
  }

  private call(): void {
    const id = String(++lastId);
    for (const at of this.requestPlaces) this.request.write(id, at, ID_WIDTH, 'latin1');
    for (const at of this.expectedPlaces) this.expected.write(id, at, ID_WIDTH, 'latin1');
    this.began = performance.now();
    this.socket.write(this.request);
  }

  close(): void {
    this.run = undefined;
    this.socket.destroy();
  }
}

const quantile = (sorted: Float64Array, p: number): number => sorted[Math.floor((sorted.length - 1) * p)] ?? Number.NaN;

class Run {
  private readonly latencies: number[] = [];
  private readonly began = performance.now();
  private readonly cpu = process.cpuUsage();
  private readonly until: number;
  private left: number;
  private open: number;
  private wrong = 0;
  private sample: string | undefined;

  constructor(
    job: Calls,
    private readonly finish: (figures: CallFigures) => void,
  ) {
    this.open = job.connections;
    this.until = this.began + job.milliseconds;
    this.left = (job.calls ?? Number.POSITIVE_INFINITY) - job.connections;
  }

  done(latency: number, good: boolean): boolean {
    this.latencies.push(latency);
    if (!good) this.wrong++;
    if (this.left-- > 0 && performance.now() < this.until) return true;
    this.leave();
    return false;
  }

  differs(text: string): void {
    this.sample ??= text;
  }

  lost(why: string): void {
    this.sample ??= why;
    this.wrong++;
    this.leave();
  }

  private leave(): void {
    if (--this.open > 0) return;
    const { user, system } = process.cpuUsage(this.cpu);
    const sorted = Float64Array.from(this.latencies).sort();
    this.finish({
      calls: sorted.length,
      seconds: (performance.now() - this.began) / 1_000,
      p50: quantile(sorted, 0.5),
      p99: quantile(sorted, 0.99),
      wrong: this.wrong,
      own: (user + system) / Math.max(1, sorted.length),
      ...(this.sample !== undefined && { sample: this.sample }),
    });
  }
}

async function calls(job: Calls): Promise<CallFigures> {
  const connections = Array.from({ length: job.connections }, () => new Connection(job, new URL(job.url)));
  for (const connection of connections) await connection.prepare();
  await go();
  const figures = await new Promise<CallFigures>((resolve) => {
    const run = new Run(job, resolve);
    for (const connection of connections) connection.start(run);
  });
  for (const connection of connections) connection.close();
  return figures;
}

/** Reads one stream; all events must arrive, in order. */
async function stream({ url: address, pace }: Extract<Job, { what: 'stream' }>): Promise<StreamFigures> {
  await go();
  const url = new URL(address);
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
  const began = performance.now();
  const id = ++lastId;
  socket.write(httpText(url, streamBody(id, pace), 'text/event-stream'));
  const delays: number[] = [];
  let [rest, seen, wrong] = ['', 0, 0];
  let sample: string | undefined;
  await new Promise<void>((resolve) => {
    socket.on('error', () => resolve());
    socket.on('close', () => resolve());
    socket.on('data', (chunk: Buffer) => {
      const now = process.hrtime.bigint();
      rest += chunk.toString('latin1');
      for (let at = rest.indexOf('data: '); at >= 0; at = rest.indexOf('data: ')) {
        const end = rest.indexOf('\n\n', at);
        if (end < 0) break;
        const line = rest.slice(at + 6, end);
        rest = rest.slice(end + 2);
        const sent = /"sent":"(\d+)"/.exec(line)?.[1];
        const number = /piece (\d+) /.exec(line)?.[1];
        // The first and the last event have no number; their kind identifies them.
        const right =
          seen === 0
            ? line.includes('"task"')
            : seen === EVENTS - 1
              ? line.includes('COMPLETED')
              : Number(number) === seen;
        if (!right || sent === undefined || !line.includes(`task-${id}`)) {
          wrong++;
          sample ??= line.slice(0, 500);
        } else delays.push(Number(now - BigInt(sent)) / 1e6);
        seen++;
      }
      if (seen >= EVENTS) socket.destroy();
    });
  });
  if (seen !== EVENTS) {
    wrong++;
    sample ??= `${seen} events: ${rest.slice(0, 500)}`;
  }
  const sorted = Float64Array.from(delays).sort();
  return {
    p50: quantile(sorted, 0.5),
    p99: quantile(sorted, 0.99),
    whole: performance.now() - began,
    wrong,
    ...(sample !== undefined && { sample }),
  };
}

async function go(): Promise<void> {
  process.send!('ready');
  await new Promise((resolve) => process.once('message', resolve));
}

process.on('message', (message: Job | 'go') => {
  if (message === 'go') return;
  (message.what === 'calls' ? calls(message) : stream(message)).then(
    (figures) => process.send!(figures),
    (error: Error) => process.send!({ failed: error.message }),
  );
});
process.on('disconnect', () => process.exit(0));
process.send!('up');
