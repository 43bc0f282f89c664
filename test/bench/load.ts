/**
 * The load generator: keep-alive connections on bare sockets, each with one call under way, every byte of every answer
 * compared. It shares two cores with the measured process, so it must be cheap: a call costs a fraction of the CPU of
 * an HTTP client library (see the report), and answers are compared in the receive buffer, not copied.
 *
 * Over IPC: a Job comes in, 'ready' goes out when all connections are set up, 'go' comes in, Figures go out.
 */
import { connect, type Socket } from 'node:net';
import {
  callHeaders,
  callText,
  FIRST_ID,
  type Figures,
  fillerOf,
  httpText,
  ID_WIDTH,
  INITIALIZE,
  INITIALIZED,
  type Job,
  LEGACY_DATE,
  markOf,
  textOf,
} from './wire.js';

const BLOCK = 64 * 1024;
let lastId = FIRST_ID;

/** A verified answer and the position of the id in it; all other answers differ only in the id. */
class Model {
  readonly places: readonly number[];

  constructor(
    readonly body: Buffer,
    id: number,
  ) {
    this.places = occurrences(body, id);
  }
}

function occurrences(body: Buffer, id: number): number[] {
  const places: number[] = [];
  for (let at = body.indexOf(String(id)); at >= 0; at = body.indexOf(String(id), at + 1)) places.push(at);
  return places;
}

/** One connection. It exchanges complete messages during the setup, and then calls and compares. */
class Connection {
  private readonly socket: Socket;
  private readonly inbox = Buffer.allocUnsafe(BLOCK);
  private request!: Buffer;
  private requestPlaces!: readonly number[];
  private expected!: Buffer;
  private places!: readonly number[];
  private began = 0;
  /** The number of received body bytes; -1 while the head is read. */
  private got = -1;
  private good = true;
  private head = '';
  private collect: ((status: number, head: string, body: Buffer) => void) | undefined;
  private collected: Buffer[] = [];
  private run: Run | undefined;
  private session: string | undefined;

  constructor(
    private readonly job: Job,
    private readonly url: URL,
  ) {
    this.socket = connect({
      host: url.hostname,
      port: Number(url.port),
      noDelay: true,
      onread: {
        buffer: this.inbox,
        callback: (count) => {
          if (this.collect) this.gather(count);
          else this.receive(count);
          return true;
        },
      },
    });
    this.socket.on('error', (error) => this.lost(error.message));
    this.socket.on('close', () => this.lost('the connection was closed'));
  }

  private lost(why: string): void {
    const { run } = this;
    this.run = undefined;
    this.socket.destroy();
    run?.lost(why);
  }

  private exchange(text: string): Promise<{ status: number; head: string; body: Buffer }> {
    return new Promise((resolve) => {
      this.collected = [];
      this.collect = (status, head, body) => {
        this.collect = undefined;
        resolve({ status, head, body });
      };
      this.socket.write(text);
    });
  }

  private gather(count: number): void {
    this.collected.push(Buffer.from(this.inbox.subarray(0, count)));
    const all = Buffer.concat(this.collected);
    const end = all.indexOf('\r\n\r\n');
    if (end < 0) return;
    const head = all.toString('latin1', 0, end);
    const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    if (all.length < end + 4 + length) return;
    this.collect!(Number(head.slice(9, 12)), head, all.subarray(end + 4, end + 4 + length));
  }

  /** Opens a session if the era has sessions, makes one call and reads its complete answer. */
  async prepare(model: Model | undefined): Promise<Model> {
    const { job, url } = this;
    if (job.era === 'legacy') {
      const { status, head, body } = await this.exchange(httpText(url, 'POST', INITIALIZE, {}));
      this.session = /mcp-session-id: *(\S+)/i.exec(head)?.[1];
      if (status !== 200 || this.session === undefined) throw new Error(`initialize: ${status} ${body}`);
      const headers = { 'mcp-session-id': this.session, 'mcp-protocol-version': LEGACY_DATE };
      const told = await this.exchange(httpText(url, 'POST', INITIALIZED, headers));
      if (told.status !== 202) throw new Error(`initialized: ${told.status} ${told.body}`);
    }
    const id = ++lastId;
    const authorization = job.token === undefined ? undefined : `Bearer ${job.token}`;
    const headers = { ...callHeaders(job.era, job.tool, this.session), authorization };
    const text = httpText(url, 'POST', callText(job.era, job.tool, job.size, id), headers);
    this.request = Buffer.from(text);
    this.requestPlaces = occurrences(this.request, id);
    // Called also if the model answer is known, so that each session is set up before the measurement.
    const { status, body } = await this.exchange(text);
    const said = JSON.parse(body.toString()) as { id: number; result?: { content?: { text?: string }[] } };
    const right = textOf(markOf(id), fillerOf(job.size));
    if (status !== 200 || said.id !== id || said.result?.content?.[0]?.text !== right)
      throw new Error(`${job.url} answered ${status} ${body.toString('utf8', 0, 500)}`);
    const found = model ?? new Model(body, id);
    this.expected = Buffer.from(found.body);
    this.places = found.places;
    return found;
  }

  start(run: Run): void {
    this.run = run;
    this.call();
  }

  private call(): void {
    const id = String(++lastId);
    const { request, expected } = this;
    for (const at of this.requestPlaces) request.write(id, at, ID_WIDTH, 'latin1');
    for (const at of this.places) expected.write(id, at, ID_WIDTH, 'latin1');
    this.got = -1;
    this.good = true;
    this.began = performance.now();
    this.socket.write(request);
  }

  private receive(count: number): void {
    let from = 0;
    if (this.got < 0) {
      const end = this.inbox.indexOf('\r\n\r\n');
      if (end < 0 || end >= count) {
        this.lost('the head of an answer came in pieces');
        return;
      }
      this.head = this.inbox.toString('latin1', 0, end);
      from = end + 4;
      this.got = 0;
      const length = /content-length: *(\d+)/i.exec(this.head)?.[1];
      if (!this.head.startsWith('HTTP/1.1 200') || Number(length) !== this.expected.length) {
        this.lost(`${this.head}\n\n${this.inbox.toString('utf8', from, Math.min(count, from + 500))}`);
        return;
      }
    }
    const { got } = this;
    const size = count - from;
    if (got + size > this.expected.length) {
      this.lost('an answer is longer than its Content-Length');
      return;
    }
    if (this.expected.compare(this.inbox, from, count, got, got + size) !== 0) {
      this.good = false;
      this.run?.differs(this.inbox.toString('utf8', from, Math.min(count, from + 500)));
    }
    this.got += size;
    if (this.got === this.expected.length && this.run?.done(performance.now() - this.began, this.good)) this.call();
  }

  async close(): Promise<void> {
    this.run = undefined;
    if (this.session !== undefined && !this.socket.destroyed && this.got === this.expected?.length) {
      const headers = { 'mcp-session-id': this.session, 'mcp-protocol-version': LEGACY_DATE };
      await this.exchange(httpText(this.url, 'DELETE', '', headers));
    }
    this.socket.destroy();
  }
}

class Run {
  private readonly latencies: number[] = [];
  private readonly began = performance.now();
  private readonly cpu = process.cpuUsage();
  private open: number;
  private wrong = 0;
  private sample: string | undefined;
  private readonly until: number;
  private left: number;

  constructor(
    job: Job,
    private readonly finish: (figures: Figures) => void,
  ) {
    this.open = job.connections;
    this.until = job.milliseconds === undefined ? Number.POSITIVE_INFINITY : this.began + job.milliseconds;
    this.left = (job.calls ?? Number.POSITIVE_INFINITY) - job.connections;
  }

  /** Records a finished call; returns whether its connection makes another one. */
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

  /** Ends the job after a connection failed. */
  lost(why: string): void {
    this.sample ??= why;
    this.wrong++;
    this.leave();
  }

  private leave(): void {
    if (--this.open > 0) return;
    const seconds = (performance.now() - this.began) / 1_000;
    const { user, system } = process.cpuUsage(this.cpu);
    const sorted = Float64Array.from(this.latencies).sort();
    const at = (p: number): number => sorted[Math.floor((sorted.length - 1) * p)] ?? Number.NaN;
    const calls = sorted.length;
    this.finish({
      calls,
      seconds,
      p50: at(0.5),
      p99: at(0.99),
      wrong: this.wrong,
      own: (user + system) / Math.max(1, calls),
      ...(this.sample !== undefined && { sample: this.sample }),
    });
  }
}

async function perform(job: Job): Promise<Figures> {
  const url = new URL(job.url);
  const connections: Connection[] = [];
  let model: Model | undefined;
  for (let i = 0; i < job.connections; i++) {
    const connection = new Connection(job, url);
    connections.push(connection);
    model = await connection.prepare(model);
  }
  process.send!('ready');
  await new Promise((resolve) => process.once('message', resolve));
  const figures = await new Promise<Figures>((resolve) => {
    const run = new Run(job, resolve);
    for (const connection of connections) connection.start(run);
  });
  await Promise.all(connections.map((connection) => connection.close()));
  return figures;
}

process.on('message', (message: Job | 'go') => {
  if (message === 'go') return;
  perform(message).then(
    (figures) => process.send!(figures),
    (error: Error) => process.send!({ failed: error.message }),
  );
});
process.on('disconnect', () => process.exit(0));
process.send!('up');
