import type { EventSink, Resumable } from './shared-streams.js';

/**
 * Limit on the connections of one session that read one stream of another replica at the same time. A client needs only
 * one.
 */
const MOST_READERS = 64;

interface Reader {
  readonly stream: Resumable;
  readonly sink: EventSink;
}

/**
 * The connections that read streams of other replicas, by the name of the stream. Each connection reads the Bus by
 * itself, so only the latest connections are kept. A client that connects again has lost its earlier connections, even
 * if the gateway has not noticed the loss.
 */
export class LatestReaders {
  private readonly readers = new Map<string, Set<Reader>>();

  /** Limits the connections that read `stream`. */
  limited(name: string, stream: Resumable): Resumable {
    const own = new Map<EventSink, Reader>();
    return {
      connect: (sink, after) => {
        const reader = { stream, sink };
        own.set(sink, reader);
        this.add(name, reader);
        stream.connect(sink, after);
      },
      disconnect: (sink) => {
        stream.disconnect(sink);
        const reader = own.get(sink);
        if (reader) this.remove(name, reader);
      },
    };
  }

  private add(name: string, reader: Reader): void {
    const readers = this.readers.get(name) ?? new Set();
    this.readers.set(name, readers);
    for (const oldest of readers) {
      if (readers.size < MOST_READERS) break;
      readers.delete(oldest);
      oldest.stream.disconnect(oldest.sink);
      oldest.sink.end();
    }
    readers.add(reader);
  }

  private remove(name: string, reader: Reader): void {
    const readers = this.readers.get(name);
    readers?.delete(reader);
    if (readers?.size === 0) this.readers.delete(name);
  }
}
