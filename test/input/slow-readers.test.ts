/**
 * Many clients that request large responses and do not read them. Each client stays within its own limits, but all
 * together exceed the memory for unread data.
 */
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { answer, json, type Rogue, startRogue } from './support/rogue.js';
import { modernBody, modernCall, modernHeaders } from './support/speak.js';
import { eventually } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

const READERS = 80;
/** The system buffers about one such response that nobody reads, so each client requests two. */
const LARGE = 3_900_000;
const UNREAD = 32;

let server: Rogue;
let world: World;
beforeAll(async () => {
  server = await startRogue({
    large: ({ id, era, res }) => json(res, 200, answer(id, 'x'.repeat(LARGE), era)),
  });
  world = await startWorld({
    servers: { large: { url: server.url, revision: 'modern' } },
    limits: { unread: `${UNREAD}MiB` },
  });
});
afterAll(async () => {
  await world.wellBehaved();
  await world.close();
  await server.close();
});

const PARAMS = { name: 'large__large', arguments: {} };
const HEAD = Object.entries(modernHeaders('tools/call', PARAMS)).map(([name, value]) => `${name}: ${value}\r\n`);
const BODY = JSON.stringify(modernBody('tools/call', PARAMS));
const REQUEST = `POST /mcp HTTP/1.1\r\nHost: localhost\r\n${HEAD.join('')}Content-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;

it(`${READERS} clients that do not read occupy little memory; those that read are served`, async () => {
  const before = world.memory();
  const gone = new Set<Socket>();
  const slow = Array.from({ length: READERS }, () => {
    const socket = connect({ port: Number(new URL(world.url).port), host: '127.0.0.1' });
    socket.on('error', () => {});
    socket.pause();
    socket.write(REQUEST);
    return socket;
  });
  await eventually(
    () => server.posted.length,
    (count) => count >= READERS,
    90_000,
  );
  for (const socket of slow) socket.write(REQUEST);
  await eventually(
    () => world.gateway.log(),
    (log) => log.includes('limits.unread'),
    90_000,
  );
  // Clients that read are served meanwhile, with a response of any size.
  for (let i = 0; i < 3; i++) {
    const reply = await modernCall(world.mcp, 'large__large');
    expect(reply.json.result?.content[0]?.text).toHaveLength(LARGE);
  }
  await world.wellBehaved();
  const held = world.memory() - before;
  console.log(
    `${READERS} slow readers of ${LARGE} bytes: ${Math.round(held)} MiB more with limits.unread ${UNREAD} MiB`,
  );
  // Without the limit, the second responses of all clients take 298 MiB. The bound leaves room for uncollected garbage.
  expect(held).toBeLessThan(200);
  // A disconnected client notices the end of its connection when it reads again.
  for (const socket of slow) {
    socket.on('close', () => gone.add(socket));
    socket.resume();
  }
  await eventually(
    () => gone.size,
    (count) => count > READERS / 2,
  );
  for (const socket of slow) socket.destroy();
});
