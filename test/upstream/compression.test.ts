/** Servers that compress their replies, requested or not. */
import { brotliCompressSync, createGzip, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { textOf } from '../input/support/message.js';
import { answer, type Called, event, type Rogue, startRogue } from '../input/support/rogue.js';
import { modernCall } from '../input/support/speak.js';
import { startWorld, type World } from '../input/support/world.js';

const LONG = 'a long text '.repeat(20_000);
let bomb: Buffer;

const packed =
  (coding: string, pack: (text: string) => Buffer) =>
  ({ res, id, era }: Called): void =>
    void res
      .writeHead(200, { 'content-type': 'application/json', 'content-encoding': coding })
      .end(pack(JSON.stringify(answer(id, LONG, era))));

const SCRIPT: Record<string, (called: Called) => void> = {
  gzip: packed('gzip', (text) => gzipSync(text)),
  deflate: packed('deflate', (text) => deflateSync(text)),
  br: packed('br', (text) => brotliCompressSync(text)),
  zstd: packed('zstd', (text) => Buffer.from(text)),
  stream: ({ res, id, era }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' });
    const gzip = createGzip();
    gzip.pipe(res);
    gzip.write(': first\n\n');
    gzip.flush();
    setTimeout(() => gzip.end(event(answer(id, LONG, era))), 50);
  },
  bomb: ({ res }) =>
    void res.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(bomb),
  'refused-bomb': ({ res }) => void res.writeHead(500, { 'content-encoding': 'gzip' }).end(bomb),
};

let rogue: Rogue;
let world: World;
beforeAll(async () => {
  const gzip = createGzip();
  const parts: Buffer[] = [];
  gzip.on('data', (part: Buffer) => parts.push(part));
  const spaces = Buffer.alloc(16 * 1024 * 1024, ' ');
  for (let i = 0; i < 64; i++) await new Promise((resolve) => gzip.write(spaces, resolve));
  await new Promise<void>((resolve) => gzip.end(resolve));
  bomb = Buffer.concat(parts);
  rogue = await startRogue(SCRIPT);
  world = await startWorld({
    servers: {
      modern: { url: rogue.url, revision: 'modern' },
      legacy: { url: rogue.url, revision: 'legacy', transport: 'http' },
    },
  });
});
afterAll(async () => {
  await world.wellBehaved();
  await world.close();
  await rogue.close();
});

describe.each(['modern', 'legacy'])('a %s server', (era) => {
  it.each(['gzip', 'deflate', 'br', 'stream'])('may compress with %s', async (coding) => {
    expect(textOf((await modernCall(world.mcp, `${era}__${coding}`, {})).json) === LONG).toBe(true);
  });

  it('that uses an unsupported coding fails its call', async () => {
    const { error } = (await modernCall(world.mcp, `${era}__zstd`, {})).json;
    expect(error).toMatchObject({ code: -32603, data: { reason: 'upstream_error', outcome: 'unknown' } });
  });

  it.each(['bomb', 'refused-bomb'])('cannot make the gateway keep a gigabyte: %s', async (tool) => {
    const before = world.memory();
    const { error } = (await modernCall(world.mcp, `${era}__${tool}`, {})).json;
    expect(error).toMatchObject({ code: -32603, data: { reason: 'upstream_error', outcome: 'unknown' } });
    expect(world.memory() - before).toBeLessThan(128);
  });
});
