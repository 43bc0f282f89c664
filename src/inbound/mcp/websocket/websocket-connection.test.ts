/** Back-pressure: what a WebSocket does with a client that sends messages and does not read the answers. */
import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { ALL_SERVERS } from '../../../core/gateway.js';
import { UnreadBytes } from '../../http/unread-bytes.js';
import { WebSocketConnection, type WebSocketConnectionOptions } from './websocket-connection.js';

const KIB = 1024;

/** A socket of the library. `backlog` is the number of bytes that its client has not read. */
class FakeSocket extends EventEmitter {
  readonly OPEN = 1;
  readyState = 1;
  backlog = 0;
  reading = true;
  pings = 0;
  readonly sent: string[] = [];

  get bufferedAmount(): number {
    return this.backlog;
  }

  send(data: Buffer): void {
    this.sent.push(data.toString());
  }

  pause(): void {
    this.reading = false;
  }

  resume(): void {
    this.reading = true;
  }

  ping(): void {
    this.pings++;
  }

  terminate(): void {
    this.readyState = 3;
    this.emit('close');
  }

  /** A message of the client: a binary frame, which is refused at once. */
  ask(): void {
    this.emit('message', Buffer.from('x'), true);
  }
}

let socket: FakeSocket;
beforeEach(() => {
  vi.useFakeTimers();
  socket = new FakeSocket();
  const options: WebSocketConnectionOptions = {
    modern: {} as WebSocketConnectionOptions['modern'],
    sessions: {} as WebSocketConnectionOptions['sessions'],
    view: ALL_SERVERS,
    limits: { depth: 64, nodes: 1_000, batch: 10 } as unknown as WebSocketConnectionOptions['limits'],
    unread: new UnreadBytes({ bytes: 64 * KIB * KIB, stall: 60_000 }),
    ping: 1_000,
    authenticate: () => {
      throw new Error('no message is read');
    },
    failed: (error) => {
      throw error;
    },
  };
  new WebSocketConnection(socket as unknown as WebSocket, options);
});
afterEach(() => {
  socket.terminate();
  vi.useRealTimers();
});

describe('S3-15: a client that does not read its answers', () => {
  test('is not read while its answers wait, and is read again once it has read them', () => {
    socket.backlog = 200 * KIB;
    socket.ask();
    expect(socket.reading).toBe(true);
    socket.backlog = 300 * KIB;
    socket.ask();
    expect(socket.reading).toBe(false);
    vi.advanceTimersByTime(500);
    expect(socket.reading).toBe(false);
    socket.backlog = 100 * KIB;
    vi.advanceTimersByTime(50);
    expect(socket.reading).toBe(true);
    expect([socket.sent.length, socket.readyState]).toEqual([2, socket.OPEN]);
  });

  test('is disconnected if far more bytes wait', () => {
    socket.backlog = 1_100 * KIB;
    socket.ask();
    expect(socket.readyState).not.toBe(socket.OPEN);
    expect(vi.getTimerCount()).toBe(0);
  });
});

test('S3-15: a client that does not answer a ping is disconnected, and a client that answers stays connected', () => {
  for (let n = 1; n <= 3; n++) {
    vi.advanceTimersByTime(1_000);
    expect([socket.pings, socket.readyState]).toEqual([n, socket.OPEN]);
    if (n < 3) socket.emit('pong');
  }
  vi.advanceTimersByTime(1_000);
  expect(socket.readyState).not.toBe(socket.OPEN);
});
