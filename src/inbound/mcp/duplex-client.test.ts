import { expect, test } from 'vitest';
import { LOCAL } from '../../core/caller.js';
import { ALL_SERVERS } from '../../core/gateway.js';
import { DuplexClient, type DuplexClientOptions } from './duplex-client.js';

type Answer = { readonly id: number; readonly result?: object; readonly error?: { readonly message: string } };

/** A client whose handshake ends when the test says so, and whose session answers every request. */
function start() {
  const answers: Answer[] = [];
  const waiting: (() => void)[] = [];
  const handled: unknown[] = [];
  const session = {
    busy: 0,
    revision: { expresses: { batches: false } },
    handle: async (_: unknown, { id }: { id?: unknown }) => void handled.push(id),
  };
  const client = new DuplexClient({
    modern: {} as DuplexClientOptions['modern'],
    sessions: {
      open: () => new Promise((resolve) => waiting.push(() => resolve({ session, result: {} }))),
      end: async () => {},
    } as unknown as DuplexClientOptions['sessions'],
    view: ALL_SERVERS,
    limits: { depth: 64, members: 1_000_000, batch: 10 },
    write: (message) => answers.push(JSON.parse(Buffer.concat(message).toString()) as Answer),
    failed: (error) => {
      throw error;
    },
  });
  const send = (method: string, id?: number, params: object = {}): Promise<void> =>
    client.receive(Buffer.from(JSON.stringify({ jsonrpc: '2.0', id, method, params })), () => LOCAL);
  const initialize = (id: number): Promise<void> =>
    send('initialize', id, {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'a', version: '1' },
    });
  return { answers, handled, waiting, send, initialize };
}

test('messages that arrive during the handshake wait for it, and their bytes are limited', async () => {
  const { answers, handled, waiting, send, initialize } = start();
  const handshake = initialize(1);
  await expect.poll(() => waiting.length).toBe(1);
  const pad = 'x'.repeat(1024 * 1024);
  const sent = Array.from({ length: 10 }, (_, i) => send('tools/call', i + 2, { name: 'a', arguments: { pad } }));
  sent.push(send('notifications/long', undefined, { pad }));
  await expect.poll(() => answers.length).toBe(7);
  for (const { error } of answers) expect(error?.message).toBe('Too many messages wait for the end of the handshake');
  expect(handled).toEqual([]);
  waiting[0]!();
  await Promise.all([handshake, ...sent]);
  expect(handled).toEqual([2, 3, 4]);
  await send('tools/call', 20, { name: 'a', arguments: { pad } });
  expect(handled.at(-1)).toBe(20);
});

test('requests for a handshake during another one wait in order, and their number is limited', async () => {
  const { answers, waiting, initialize } = start();
  const sent = Array.from({ length: 1_005 }, (_, i) => initialize(i));
  await expect.poll(() => answers.length).toBe(4);
  expect(waiting).toHaveLength(1);
  waiting[0]!();
  await Promise.all(sent);
  expect(answers).toHaveLength(1_005);
  expect(answers.filter(({ result }) => result)).toHaveLength(1);
});
