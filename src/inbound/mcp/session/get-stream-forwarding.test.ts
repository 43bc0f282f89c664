import { describe, expect, test } from 'vitest';
import type { Asked, Cluster } from '../../../core/cluster.js';
import type { JsonValue } from '../../../protocol/jsonrpc/raw.js';
import { EventLog } from './event-log.js';
import { type GetHolder, GetStreams } from './get-stream-forwarding.js';
import type { EventSink } from './shared-streams.js';

type Handler = (payload: JsonValue, asked: Asked) => Promise<JsonValue>;

/** Replicas whose messages arrive synchronously. */
class Network {
  readonly listeners = new Map<string, { self: string; hear: (payload: JsonValue) => void }[]>();
  readonly handlers = new Map<string, Handler>();
  broken = false;

  join(self: string): Cluster {
    return {
      self,
      alive: async () => true,
      ask: async (replica, subject, payload) => {
        const handler = this.handlers.get(`${replica} ${subject}`);
        if (this.broken || !handler) throw new Error('not reachable');
        return handler(payload, {} as Asked);
      },
      handle: (subject, handler) => {
        this.handlers.set(`${self} ${subject}`, handler);
        return () => {};
      },
      tell: async (subject, payload) => {
        for (const one of this.listeners.get(subject) ?? []) if (one.self !== self) one.hear(payload);
      },
      follow: async () => {},
      unfollow: () => {},
      onTold: (subject, hear) => {
        this.listeners.set(subject, [...(this.listeners.get(subject) ?? []), { self, hear }]);
        return () => {};
      },
    };
  }
}

class Holder implements GetHolder {
  readonly log = new EventLog('session');
  readonly gets: GetStreams;

  constructor(network: Network, self: string) {
    this.gets = new GetStreams(network.join(self), () => this);
  }

  get connected(): boolean {
    return this.log.hasGet;
  }

  get messages() {
    return this.log.messages;
  }

  unsolicited(message: Buffer): void {
    this.log.general.append([message]);
  }

  say(...texts: string[]): void {
    for (const text of texts) this.unsolicited(Buffer.from(text));
  }

  get(): { heard: string[]; close(): void; ended: boolean } {
    const opened = { heard: [] as string[], ended: false, close: () => this.log.general.disconnect(sink) };
    const sink: EventSink = {
      event: (_, data) => opened.heard.push(Buffer.concat(data).toString()),
      end: () => {
        opened.ended = true;
      },
    };
    this.log.general.connect(sink);
    this.gets.opened('session');
    return opened;
  }
}

const pair = (): { network: Network; a: Holder; b: Holder } => {
  const network = new Network();
  return { network, a: new Holder(network, 'a'), b: new Holder(network, 'b') };
};
const LIST_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';

describe('messages for a GET stream at another replica', () => {
  test('that waited are sent when the stream opens, later ones at once', async () => {
    const { a, b } = pair();
    a.say('one', LIST_CHANGED);
    const { heard } = b.get();
    await expect.poll(() => heard).toEqual(['one', LIST_CHANGED]);
    // The other replica watches lists itself.
    a.say('two', LIST_CHANGED, 'three');
    await expect.poll(() => heard).toEqual(['one', LIST_CHANGED, 'two', 'three']);
  });

  test('wait again if the stream is no longer open, and go to the next stream', async () => {
    const { a, b } = pair();
    a.say('one');
    const first = b.get();
    await expect.poll(() => first.heard).toEqual(['one']);
    first.close();
    a.say('two', 'three');
    await expect.poll(() => a.messages?.connected).toBe(false);
    a.say('four');
    expect(a.get().heard).toEqual(['two', 'three', 'four']);
  });

  test('wait if the other replica is unreachable', async () => {
    const { network, a, b } = pair();
    a.say('one');
    network.broken = true;
    const { heard } = b.get();
    await expect.poll(() => a.messages?.connected).toBe(false);
    network.broken = false;
    a.gets.wanted('session');
    await expect.poll(() => heard).toEqual(['one']);
  });

  test('are not moved from a stream that is open at this replica', async () => {
    const { a, b } = pair();
    const here = a.get();
    const there = b.get();
    a.say('here');
    b.say('there');
    expect(here.heard).toEqual(['here']);
    expect(there.heard).toEqual(['there']);
    expect(here.ended).toBe(false);
  });

  test('are limited in the bytes that wait for the other replica: beyond the limit the newest messages stay in their stream', async () => {
    const { network, a, b } = pair();
    a.say('first');
    b.get();
    await expect.poll(() => a.messages?.connected).toBe(true);
    let release = (): void => {};
    const answered = new Promise<void>((resolve) => {
      release = resolve;
    });
    network.handlers.set('b session:get-messages', async () => {
      await answered;
      return false;
    });
    for (let i = 0; i < 300; i++) a.say('x'.repeat(10_000));
    expect(a.messages?.connected).toBe(false);
    release();
    expect(a.get().heard.length).toBeGreaterThan(90);
  });
});
