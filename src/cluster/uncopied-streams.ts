import { Cancellation } from '../core/caller.js';
import { type Cluster, ReplicaGone } from '../core/cluster.js';
import type { EventSink, Resumable } from '../inbound/mcp/session/shared-streams.js';
import { ProtocolError } from '../protocol/errors.js';
import type { JsonObject, JsonValue } from '../protocol/jsonrpc/raw.js';

const SUBJECT = 'session:stream';
/** How long the maker waits for an event before it answers that there is none yet. */
const WAIT = 20_000;

/** The events of a stream behind a certain one, as its maker holds them. */
interface Batch {
  readonly events: readonly (readonly [id: string, text: string])[];
  /** Nothing follows on this connection; with `retry`, the rest can be fetched after so many milliseconds. */
  readonly over: boolean;
  readonly retry?: number;
}

/** Finds a stream that this replica makes. */
export type FindStream = (session: string, stream: string) => Resumable | undefined;

/** Lets other replicas read the streams of this one, also those of which there is no copy on the Bus. */
export function serveStreams(cluster: Cluster, find: FindStream): void {
  cluster.handle(SUBJECT, async (payload, { cancellation }) => {
    const { session, stream, after, wait } = payload as JsonObject;
    const found = find(String(session), String(stream));
    if (!found) throw new ProtocolError('event_not_found', 'The stream of this Last-Event-ID is not kept');
    const batch = await collect(found, Number(after), wait === true ? WAIT : 0, cancellation);
    return batch as unknown as JsonValue;
  });
}

function collect(stream: Resumable, after: number, wait: number, cancellation: Cancellation): Promise<Batch> {
  return new Promise((resolve, reject) => {
    const events: [string, string][] = [];
    let timer: NodeJS.Timeout | undefined;
    let stopListening = (): void => {};
    const stop = (): void => {
      clearTimeout(timer);
      stopListening();
    };
    const answer = (over: boolean, retry?: number): void => {
      stop();
      stream.disconnect(sink);
      resolve({ events, over, ...(retry !== undefined && { retry }) });
    };
    const sink: EventSink = {
      event: (id, data) => {
        events.push([id, Buffer.concat(data).toString('utf8')]);
        // Everything there is by now goes into one answer.
        if (events.length === 1) setImmediate(() => answer(false));
      },
      end: (retry) => answer(true, retry),
    };
    timer = setTimeout(() => answer(false), wait);
    stopListening = cancellation.onCancel(() => answer(true));
    try {
      stream.connect(sink, after);
    } catch (error) {
      stop();
      reject(error as Error);
    }
  });
}

export interface RelayOptions {
  readonly cluster: Cluster;
  readonly maker: string;
  readonly session: string;
  readonly stream: string;
}

/** The stream from behind event `after` on, read at its maker; undefined where the maker is gone or has lost it. */
export async function relayedStream(options: RelayOptions, after: number): Promise<Resumable | undefined> {
  if (options.maker === options.cluster.self) return undefined;
  try {
    return new RelayedStream(options, await read(options, after, false));
  } catch (error) {
    if (error instanceof ReplicaGone) return undefined;
    // A replica of an older version does not know the question.
    if (error instanceof ProtocolError && (error.reason === 'event_not_found' || error.reason === 'not_found'))
      return undefined;
    throw error;
  }
}

async function read(
  { cluster, maker, session, stream }: RelayOptions,
  after: number,
  wait: boolean,
  cancellation?: Cancellation,
): Promise<Batch> {
  const question = { session, stream, after, wait };
  return (await cluster.ask(maker, SUBJECT, question, cancellation && { cancellation })) as unknown as Batch;
}

/**
 * Sends a stream that another replica holds in memory only: it asks for the next events, again and again. One question
 * is under way at a time, so no more than one answer is held here, however slow the bus is.
 */
class RelayedStream implements Resumable {
  private readonly cancellation = new Cancellation();
  private sink: EventSink | undefined;

  constructor(
    private readonly options: RelayOptions,
    private readonly first: Batch,
  ) {}

  connect(sink: EventSink, after = 0): void {
    this.sink = sink;
    void this.follow(after);
  }

  private async follow(after: number): Promise<void> {
    let last = after;
    let batch = this.first;
    try {
      for (;;) {
        for (const [id, text] of batch.events) {
          this.sink?.event(id, [Buffer.from(text)]);
          last = Number(id.slice(id.lastIndexOf('.') + 1));
        }
        if (batch.over || !this.sink) break;
        batch = await read(this.options, last, true, this.cancellation);
      }
      this.sink?.end(batch.retry);
    } catch {
      // The maker is gone or cannot be reached. A client that asks again is told which.
      this.sink?.end();
    }
    this.sink = undefined;
  }

  disconnect(sink: EventSink): void {
    if (this.sink !== sink) return;
    this.sink = undefined;
    this.cancellation.cancel();
  }
}
