import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ProtocolError } from '../../../protocol/errors.js';
import { lasting } from '../../../protocol/jsonrpc/json-pieces.js';
import { EventLog, LOG_LIMITS, LoggedStream } from './event-log.js';
import { FinishedReplies } from './finished-replies.js';
import type { EventSink, Resumable } from './shared-streams.js';

const MIB = 1024 * 1024;

/** Records the events that a reconnected client receives. */
class RecordingSink implements EventSink {
  readonly heard: (readonly [id: string, text: string])[] = [];
  readonly parts: Buffer[] = [];
  ends = 0;

  event(id: string, data: readonly Buffer[]): void {
    this.parts.push(...data);
    this.heard.push([id, Buffer.concat(data).toString()]);
  }

  end(): void {
    this.ends++;
  }
}

/** Buffers in Node's shared pool, which has 8 KiB up to version 22. */
const text = (value: string): Buffer[] => {
  const shared = Buffer.allocUnsafeSlow(8 * 1024);
  return [shared.subarray(0, shared.write(value))];
};

async function resume(log: EventLog, id: string): Promise<RecordingSink | string> {
  const sink = new RecordingSink();
  try {
    const { stream, seq } = await log.find(id, 'ada');
    stream.connect(sink, seq);
    return sink;
  } catch (error) {
    if (error instanceof ProtocolError) return error.reason;
    throw error;
  }
}

const heard = async (log: EventLog, id: string): Promise<string[] | string> => {
  const sink = await resume(log, id);
  if (typeof sink === 'string') return sink;
  expect(sink.ends).toBe(1);
  return sink.heard.map(([, said]) => said);
};

let inAll: FinishedReplies;
const logOf = (session = 'a', limits = LOG_LIMITS): EventLog => new EventLog(session, undefined, limits, inAll);

beforeEach(() => {
  vi.useFakeTimers();
  inAll = new FinishedReplies(16 * MIB);
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a reply that was sent whole', () => {
  it('is replayed after its first id, and ends after its last', async () => {
    const log = logOf();
    const reply = log.whole(text('answer'), {});
    const again = await resume(log, reply.before);
    expect(again).toMatchObject({ heard: [[reply.event, 'answer']], ends: 1 });
    expect(await heard(log, reply.before)).toEqual(['answer']);
    expect(await heard(log, reply.event)).toEqual([]);
  });

  it('refuses other event numbers', async () => {
    const log = logOf();
    const reply = log.whole(text('answer'), {});
    expect(await heard(log, `${reply.id}.2`)).toBe('event_not_found');
    expect(await heard(log, `${reply.id}x.0`)).toBe('event_not_found');
  });

  it('is dropped when its session sends a message on the same connection', async () => {
    const log = logOf();
    const connection = {};
    const first = log.whole(text('first'), connection);
    const second = log.whole(text('second'), connection);
    log.read(connection);
    expect(await heard(log, first.before)).toBe('event_not_found');
    expect(await heard(log, second.before)).toBe('event_not_found');
    expect(inAll.bytes).toBe(0);
  });

  it('is kept when its session uses another connection, or another session uses this one', async () => {
    const log = logOf();
    const connection = {};
    const reply = log.whole(text('answer'), connection);
    const unknown = log.whole(text('through a proxy'), undefined);
    log.read({});
    logOf('b').read(connection);
    expect(await heard(log, reply.before)).toEqual(['answer']);
    log.read(connection);
    expect(await heard(log, unknown.before)).toEqual(['through a proxy']);
  });
});

describe('a stream', () => {
  it('is not dropped by messages on its connection, and is kept after its end', async () => {
    const log = logOf();
    const stream = log.open();
    const sink = new RecordingSink();
    stream.connect(sink);
    stream.append(text('one'));
    log.read({});
    stream.append(text('two'));
    stream.finish();
    expect(sink).toMatchObject({
      heard: [
        [`${stream.id}.1`, 'one'],
        [`${stream.id}.2`, 'two'],
      ],
      ends: 1,
    });
    log.read({});
    expect(await heard(log, `${stream.id}.0`)).toEqual(['one', 'two']);
    expect(await heard(log, `${stream.id}.1`)).toEqual(['two']);
    expect(await heard(log, `${stream.id}.2`)).toEqual([]);
    expect(await heard(log, `${stream.id}.3`)).toBe('event_not_found');
  });

  it('continues where its client disconnected, while it is not finished', async () => {
    const log = logOf();
    const stream = log.open();
    stream.append(text('one'));
    const sink = (await resume(log, `${stream.id}.0`)) as RecordingSink;
    stream.append(text('two'));
    stream.finish();
    expect(sink.heard.map(([, said]) => said)).toEqual(['one', 'two']);
    expect(sink.ends).toBe(1);
  });
});

describe('a stream that other replicas can read', () => {
  it('P6: passes every event to its bounded copy at once, and sends events once they are shared', async () => {
    const waiting: [text: string, shared: (kept: boolean) => void][] = [];
    const copy = {
      opened: Promise.resolve(),
      append: (said: string) => new Promise<boolean>((resolve) => waiting.push([said, resolve])),
      finish: () => new Promise<boolean>((resolve) => waiting.push(['end', resolve])),
    };
    const stream = new LoggedStream('s', LOG_LIMITS, copy);
    const sink = new RecordingSink();
    stream.connect(sink);
    for (const said of ['one', 'two', 'three']) stream.append(text(said));
    stream.finish();
    expect(waiting.map(([said]) => said)).toEqual(['one', 'two', 'three', 'end']);
    expect(sink.heard).toEqual([]);
    for (const [, shared] of waiting.slice(1)) shared(true);
    await vi.advanceTimersByTimeAsync(0);
    expect(sink).toMatchObject({ heard: [], ends: 0 });
    waiting[0]![1](true);
    await vi.advanceTimersByTimeAsync(0);
    expect(sink.heard.map(([, said]) => said)).toEqual(['one', 'two', 'three']);
    expect(sink.ends).toBe(1);
  });
});

describe('a stream of another replica', () => {
  it('has few connections of a session: the latest end the earliest, and a closed one ends no other', async () => {
    const open = new Set<EventSink>();
    const elsewhere: Resumable = {
      connect: (sink) => void open.add(sink),
      disconnect: (sink) => void open.delete(sink),
    };
    const asked: unknown[] = [];
    const shared = {
      prefix: () => 'here-0-',
      open: () => {
        throw new Error('not opened here');
      },
      find: async (...lookup: unknown[]) => {
        asked.push(lookup);
        return elsewhere;
      },
    };
    const log = new EventLog('a', shared, LOG_LIMITS, inAll);
    const connect = async (id: string): Promise<{ sink: RecordingSink; leave(): void }> => {
      const { stream, seq } = await log.find(id, 'ada');
      const sink = new RecordingSink();
      stream.connect(sink, seq);
      return { sink, leave: () => stream.disconnect(sink) };
    };
    const other = await connect('there-0-r2.1');
    const all = [];
    for (let n = 0; n < 68; n++) all.push(await connect('there-0-r1.3'));
    expect(all.map(({ sink }) => sink.ends)).toEqual([...Array(4).fill(1), ...Array(64).fill(0)]);
    expect(open).toEqual(new Set([other, ...all.slice(4)].map(({ sink }) => sink)));
    for (const { leave } of all.slice(0, 5)) leave();
    expect(open.size).toBe(64);
    await connect('there-0-r1.3');
    expect(all[5]!.sink.ends).toBe(0);
    await connect('there-0-r1.3');
    expect(all[5]!.sink.ends).toBe(1);
    expect(other.sink.ends).toBe(0);
    expect(asked[0]).toEqual(['a', 'there-0-r2', 1, 'ada']);
  });
});

describe('the kept bytes of a message that is a slice of a larger text', () => {
  /** A body with many bytes around its result, and the message that is created from the body. */
  const cut = (size: number, body: number): Buffer[] => {
    const result = Buffer.allocUnsafeSlow(body).fill('r').subarray(0, size);
    return [...text('{"result":'), result, ...text('}')];
  };
  const memoryOf = (parts: readonly Buffer[]): number => {
    let bytes = 0;
    for (const store of new Set(parts.map((part) => part.buffer))) bytes += store.byteLength;
    return bytes;
  };

  it('are only its text if it was sent whole', async () => {
    const log = logOf();
    const message = cut(30_000, 4 * MIB);
    const expected = Buffer.concat(message).toString();
    const reply = log.whole(message, undefined);
    const sink = (await resume(log, reply.before)) as RecordingSink;
    expect(sink.heard).toEqual([[reply.event, expected]]);
    expect(memoryOf(sink.parts)).toBeLessThan(2 * expected.length);
    expect(inAll.bytes).toBe(expected.length);
  });

  it('are only its text if it is an event of a stream', async () => {
    const log = logOf();
    const stream = log.open();
    const message = cut(30_000, 4 * MIB);
    const expected = Buffer.concat(message).toString();
    stream.append(message);
    stream.finish();
    const sink = (await resume(log, `${stream.id}.0`)) as RecordingSink;
    expect(sink.heard).toEqual([[`${stream.id}.1`, expected]]);
    expect(memoryOf(sink.parts)).toBeLessThan(2 * expected.length);
  });

  it('are only its text if it lies in a larger shared pool, as in Node 24', () => {
    const shared = Buffer.allocUnsafeSlow(64 * 1024).subarray(0, 300);
    expect(memoryOf(lasting([shared], shared.length))).toBe(shared.length);
  });

  it('are the message itself if its buffer contains little else', async () => {
    const log = logOf();
    for (const message of [cut(30_000, 30_200), cut(1_000_000, 1_200_000), text('from memory that many share')]) {
      const reply = log.whole(message, undefined);
      const { parts } = (await resume(log, reply.before)) as RecordingSink;
      expect(parts.map((part, n) => part === message[n])).toEqual(message.map(() => true));
    }
  });
});

describe('finished replies', () => {
  it('are kept for the last sixteen of a session', async () => {
    const log = logOf();
    const replies = Array.from({ length: 20 }, (_, n) => log.whole(text(`${n}`), {}));
    for (const [n, reply] of replies.entries())
      expect(await heard(log, reply.before)).toEqual(n < 4 ? 'event_not_found' : [`${n}`]);
  });

  it('of a session have no more bytes than one stream may have, except a single larger reply', async () => {
    const log = logOf('a', { ...LOG_LIMITS, bytes: 1_000 });
    const replies = Array.from({ length: 5 }, () => log.whole([Buffer.alloc(300)], {}));
    expect(inAll.bytes).toBe(900);
    expect(await heard(log, replies[1]!.before)).toBe('event_not_found');
    const large = log.whole([Buffer.alloc(5_000)], {});
    expect(await heard(log, replies[4]!.before)).toBe('event_not_found');
    expect(await resume(log, large.before)).toBeInstanceOf(RecordingSink);
    log.whole(text('small'), {});
    expect(await heard(log, large.before)).toBe('event_not_found');
  });

  it('of all sessions stay within their limit, and the oldest are dropped first', async () => {
    inAll = new FinishedReplies(10_000);
    const logs = Array.from({ length: 20 }, (_, n) => logOf(`session ${n}`));
    const replies = logs.map((log) => log.whole([Buffer.alloc(900)], {}));
    expect(inAll.bytes).toBeLessThanOrEqual(10_000);
    for (const [n, log] of logs.entries()) {
      const found = await resume(log, replies[n]!.event);
      expect(typeof found === 'string').toBe(n < 9);
    }
    const stream = logs[0]!.open();
    stream.append([Buffer.alloc(9_500)]);
    expect(inAll.bytes).toBe(9_900);
    stream.finish();
    expect(inAll.bytes).toBe(9_500);
    expect(await resume(logs[0]!, `${stream.id}.0`)).toBeInstanceOf(RecordingSink);
  });

  it('expire, even without further activity', async () => {
    const log = logOf();
    const reply = log.whole(text('answer'), {});
    vi.advanceTimersByTime(LOG_LIMITS.age / 2);
    const later = log.whole(text('later'), {});
    vi.advanceTimersByTime(LOG_LIMITS.age / 2 + 200);
    expect(await heard(log, reply.before)).toBe('event_not_found');
    expect(await heard(log, later.before)).toEqual(['later']);
    vi.advanceTimersByTime(LOG_LIMITS.age);
    expect(inAll.bytes).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('are dropped with their session', async () => {
    const log = logOf();
    const other = logOf('b');
    const stream = log.open();
    stream.append(text('rest'));
    const reply = log.whole(text('answer'), {});
    const theirs = other.whole(text('theirs'), {});
    log.close();
    stream.finish();
    log.whole(text('late'), {});
    expect(await heard(log, reply.before)).toBe('event_not_found');
    expect(await heard(other, theirs.before)).toEqual(['theirs']);
    expect(inAll.bytes).toBe(6);
  });

  it('are added and removed in any order with a correct byte count', () => {
    const logs = Array.from({ length: 5 }, (_, n) => logOf(`session ${n}`));
    const connections = Array.from({ length: 4 }, () => ({}));
    let kept: { log: EventLog; connection: object; size: number }[] = [];
    let seed = 11;
    const random = (below: number): number => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return (seed >> 8) % below;
    };
    for (let step = 0; step < 2_000; step++) {
      const log = logs[random(5)]!;
      const connection = connections[random(4)]!;
      log.read(connection);
      kept = kept.filter((each) => each.log !== log || each.connection !== connection);
      const size = 1 + random(100);
      log.whole([Buffer.alloc(size)], connection);
      kept.push({ log, connection, size });
      expect(inAll.bytes).toBe(kept.reduce((sum, each) => sum + each.size, 0));
    }
    for (const log of logs) log.close();
    expect(inAll.bytes).toBe(0);
  });
});
