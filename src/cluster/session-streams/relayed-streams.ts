import { Cancellation } from '../../core/caller.js';
import { type Cluster, ReplicaGone } from '../../core/cluster.js';
import type { EventSink, Resumable } from '../../inbound/mcp/session/shared-streams.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';

const SUBJECT = 'session:stream';
/** How long the maker waits for an event before it answers with an empty batch. */
const WAIT = 20_000;

/** The events of a stream after a given event, from the maker's memory. */
interface Batch {
  readonly events: readonly (readonly [id: string, text: string])[];
  /** No event follows on this connection. With `retry`, the client can fetch the rest after that many milliseconds. */
  readonly over: boolean;
  readonly retry?: number;
}

/** Finds a stream that this replica makes. */
export type FindStream = (session: string, stream: string) => Resumable | undefined;

/** Lets other replicas read the streams of this replica, including streams without a copy on the Bus. */
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
        // Puts all events that are already present into one answer.
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

/** The stream after event `after`, read from its maker; undefined if the maker is dead or has lost the stream. */
export async function relayedStream(options: RelayOptions, after: number): Promise<Resumable | undefined> {
  if (options.maker === options.cluster.self) return undefined;
  try {
    return new RelayedStream(options, await read(options, after, false));
  } catch (error) {
    if (error instanceof ReplicaGone) return undefined;
    // A replica of an older version does not know this request, and answers `not_found`.
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
 * Sends a stream that another replica holds only in memory, by repeated requests for the next events. Sends one request
 * at a time, so this replica holds at most one answer, even if the bus is slow.
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
      // The maker is dead or unreachable. A client that connects again gets the matching error.
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
