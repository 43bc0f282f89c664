import type { Channel } from '../mcp/channel-peer.js';
import type { SseStream } from '../mcp/peer.js';
import type { HttpWire } from './http-wire.js';
import { MAX_TOTAL } from './pace.js';
import type { Reply, StreamEvent } from './reply.js';

export interface SseChannel extends Channel {
  readonly transport: 'sse';
  readonly sse: SseStream;
}

const ENDPOINT_TIME = 3_000;
const STREAM_TIME = 600_000;
const MAX_EVENTS = 1_000;

/**
 * Opens the stream of the HTTP+SSE transport and waits for its `endpoint` event. Returns the reply instead if there is
 * no such event. The `stream` wire has a pace of its own: its request stays open during the assessment.
 */
export async function openSse(stream: HttpWire, posts: HttpWire, credentials = true): Promise<SseChannel | Reply> {
  const events: StreamEvent[] = [];
  const held: string[] = [];
  let listener: ((text: string) => void) | undefined;
  let ended: ((why: string) => void) | undefined;
  let stop = (): void => {};
  let first: () => void = () => {};
  const begun = new Promise<'event' | 'late'>((resolve) => {
    const timer = setTimeout(() => resolve('late'), stream.pace.limit(ENDPOINT_TIME));
    first = () => {
      clearTimeout(timer);
      resolve('event');
    };
  });
  let why: string | undefined;
  const running = stream
    .send({
      method: 'GET',
      headers: { Accept: 'text/event-stream' },
      credentials,
      limit: STREAM_TIME,
      most: MAX_TOTAL,
      enough: () => false,
      opened: (end) => {
        stop = end;
      },
      onEvent: (event) => {
        if (events.length < MAX_EVENTS) events.push(event);
        if (event.event === 'endpoint') {
          first();
          return;
        }
        if (listener) listener(event.data);
        else if (held.length < MAX_EVENTS) held.push(event.data);
      },
    })
    .then((reply) => {
      first();
      why = 'the server closed the event stream';
      ended?.(why);
      return reply;
    });
  // The caller gets the failure with the reply.
  running.catch(() => first());
  await begun;
  const announced = events.find(({ event }) => event === 'endpoint');
  if (announced === undefined || !URL.canParse(announced.data, stream.url.href)) {
    stop();
    return running;
  }
  const url = new URL(announced.data, stream.url);
  const sameOrigin = url.origin === stream.url.origin;
  return {
    transport: 'sse',
    http: posts,
    secrets: stream.secrets,
    sse: { events, sameOrigin },
    send: async (text) => {
      if (!sameOrigin) throw new Error(`the endpoint is at another origin: ${url.origin}`);
      const headers = { 'Content-Type': 'application/json' };
      const { status, headers: replied } = await posts.send({ method: 'POST', url, headers, text });
      return { status, headers: replied };
    },
    receive: (receiver) => {
      listener = receiver;
      for (const text of held.splice(0)) receiver(text);
    },
    onEnd: (receiver) => {
      ended = receiver;
      if (why !== undefined) receiver(why);
    },
    stray: () => [],
    close: async () => {
      stop();
      await running;
      return undefined;
    },
  };
}
