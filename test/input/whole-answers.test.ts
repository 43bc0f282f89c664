/**
 * Large responses to many clients that stop reading, disconnect, cancel and resume at the same time: every byte is
 * compared.
 */
import { once } from 'node:events';
import { Agent, type IncomingMessage, request as open } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { answer, json, type Rogue, startRogue } from './support/rogue.js';
import { BOTH, initializeBody, modernBody, modernHeaders } from './support/speak.js';
import { eventually, readEvents, sleep } from './support/wire.js';
import { startWorld, type World } from './support/world.js';

const ROUNDS = 12;
const SIZES = [64 * 1024, 70_000, 100_000, 100_001, 300_000, 1_000_000, 2_000_000];
/** Larger than the amount that the system buffers if nobody reads. */
const HUGE = 3_900_000;
const PADDING = ' '.repeat(HUGE);

const textFor = (mark: string, size: number): string =>
  `${mark} `.repeat(Math.ceil(size / (mark.length + 1))).slice(0, size);
const sizeFor = (n: number): number => SIZES[n % SIZES.length]!;
/**
 * The size of replies that are kept. All of them together must fit into the limit, or some would be dropped before
 * their clients resume.
 */
const keptSizeFor = (n: number): number => Math.min(sizeFor(n), 300_000);

let both: Rogue;
let modernOnly: Rogue;
let world: World;

const script = {
  text: ({ id, args, era, res }: Parameters<Parameters<typeof startRogue>[0][string]>[0]) => {
    const { mark, size, wait } = args as { mark: string; size: number; wait?: number };
    const reply = (): void => {
      const message = answer(id, textFor(mark, size), era);
      json(res, 200, message, { 'content-length': String(Buffer.byteLength(JSON.stringify(message))) });
    };
    if (wait === undefined) reply();
    else setTimeout(reply, wait);
  },
  padded: ({ id, args, era, res }: Parameters<Parameters<typeof startRogue>[0][string]>[0]) => {
    const { mark, size } = args as { mark: string; size: number };
    const body = JSON.stringify(answer(id, textFor(mark, size), era)) + PADDING;
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) });
    res.end(body);
  },
};

beforeAll(async () => {
  both = await startRogue(script);
  modernOnly = await startRogue(script);
  world = await startWorld({ servers: { both: { url: both.url }, new: { url: modernOnly.url, revision: 'modern' } } });
});
afterAll(async () => {
  await world.wellBehaved();
  await world.close();
  await both.close();
  await modernOnly.close();
});

type Headers = Readonly<Record<string, string>>;

/** A client with one persistent connection. */
class Client {
  readonly agent = new Agent({ keepAlive: true, maxSockets: 1 });

  async begin(method: string, headers: Headers, body?: object): Promise<IncomingMessage> {
    const { hostname, port, pathname } = new URL(world.mcp);
    const bytes = body && JSON.stringify(body);
    const req = open({
      host: hostname,
      port,
      path: pathname,
      method,
      agent: this.agent,
      headers: {
        ...(bytes && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }),
        ...headers,
      },
    });
    req.end(bytes);
    const [res] = (await once(req, 'response')) as [IncomingMessage];
    return res;
  }

  close(): void {
    this.agent.destroy();
  }
}

async function whole(res: IncomingMessage, had: Buffer[] = []): Promise<string> {
  for await (const chunk of res) had.push(chunk as Buffer);
  return Buffer.concat(had).toString('utf8');
}

/** Reads a little, then pauses, then reads the rest. */
async function halting(res: IncomingMessage, wait: () => Promise<unknown>): Promise<string> {
  const first = await new Promise<Buffer>((resolve) => {
    res.once('data', (chunk: Buffer) => {
      res.pause();
      resolve(chunk);
    });
  });
  await wait();
  return whole(res, [first]);
}

/** Reads until `enough` of the body arrived, and disconnects. */
async function cut(res: IncomingMessage, enough: number): Promise<string> {
  let had = '';
  res.on('error', () => {});
  await new Promise<void>((resolve) => {
    res.on('data', (chunk: Buffer) => {
      had += chunk.toString('latin1');
      if (had.length >= enough) resolve();
    });
    res.on('close', resolve);
  });
  res.destroy();
  return had;
}

function said(type: string | undefined, body: string): string {
  const text = type?.startsWith('text/event-stream') ? readEvents(body).at(-1)!.data : body;
  return (JSON.parse(text) as { result: { content: { text: string }[] } }).result.content[0]!.text;
}

/** The id at the beginning of a reply, from which the whole reply can be resumed. */
const primingOf = (body: string): string => /^id: (\S+)/.exec(body)![1]!;

const expectText = (got: string, mark: string, size: number): void => {
  const expected = textFor(mark, size);
  if (got === expected) return;
  let at = 0;
  while (got[at] === expected[at]) at++;
  expect.fail(`${mark}: differs at ${at} of ${size}: ${JSON.stringify(got.slice(Math.max(0, at - 40), at + 80))}`);
};

const params = (server: string, mark: string, size: number, wait?: number) => ({
  name: `${server}__text`,
  arguments: { mark, size, ...(wait !== undefined && { wait }) },
});

function modern(client: Client, server: string, mark: string, size: number, wait?: number): Promise<IncomingMessage> {
  const given = params(server, mark, size, wait);
  return client.begin('POST', modernHeaders('tools/call', given), modernBody('tools/call', given));
}

class Legacy {
  private constructor(
    readonly client: Client,
    readonly headers: Headers,
  ) {}

  static async open(version: string): Promise<Legacy> {
    const client = new Client();
    const res = await client.begin('POST', { accept: BOTH }, initializeBody(version));
    await whole(res);
    const headers = {
      accept: BOTH,
      'mcp-session-id': String(res.headers['mcp-session-id']),
      'mcp-protocol-version': version,
    };
    const legacy = new Legacy(client, headers);
    await legacy.say({ jsonrpc: '2.0', method: 'notifications/initialized' });
    return legacy;
  }

  async say(message: object, client = this.client): Promise<void> {
    await whole(await client.begin('POST', this.headers, message));
  }

  call(
    server: string,
    mark: string,
    size: number,
    id: number,
    wait?: number,
    client = this.client,
  ): Promise<IncomingMessage> {
    const message = { jsonrpc: '2.0', id, method: 'tools/call', params: params(server, mark, size, wait) };
    return client.begin('POST', this.headers, message);
  }

  async resume(last: string, wait: number, meanwhile?: () => Promise<void>): Promise<string> {
    const client = new Client();
    const res = await client.begin('GET', { ...this.headers, accept: 'text/event-stream', 'last-event-id': last });
    if (res.statusCode !== 200) throw new Error(`${res.statusCode}: ${await whole(res)}`);
    const body = await halting(res, async () => {
      await meanwhile?.();
      await sleep(wait);
    });
    client.close();
    return said('text/event-stream', body);
  }
}

const SERVERS = ['both', 'new'];
const STOPS = 'a client that stops reading in the middle';
const READS_AGAIN = 'a client that reads an old reply again during its next call';
/** All kept replies fit, even if every response is slow enough to become a stream. */
const countOf = (who: string): number => (who === STOPS || who === READS_AGAIN ? 1 : 2);

/** Each function is one client that repeats the same behavior in every round. */
const behaviours: Readonly<Record<string, (name: string) => Promise<void>>> = {
  'a modern client': async (name) => {
    const client = new Client();
    for (let round = 0; round < ROUNDS; round++) {
      const mark = `${name}-${round}`;
      const res = await modern(client, SERVERS[round % 2]!, mark, sizeFor(round));
      expectText(said(res.headers['content-type'], await whole(res)), mark, sizeFor(round));
    }
    client.close();
  },
  'a client of 2025-11-25': async (name) => {
    const session = await Legacy.open('2025-11-25');
    for (let round = 0; round < ROUNDS; round++) {
      const mark = `${name}-${round}`;
      const res = await session.call(SERVERS[round % 2]!, mark, keptSizeFor(round), round);
      expect(res.headers['content-type']).toBe('text/event-stream');
      expectText(said(res.headers['content-type'], await whole(res)), mark, keptSizeFor(round));
    }
    session.client.close();
  },
  'a client of 2025-06-18': async (name) => {
    const session = await Legacy.open('2025-06-18');
    for (let round = 0; round < ROUNDS; round++) {
      const mark = `${name}-${round}`;
      const res = await session.call(SERVERS[round % 2]!, mark, keptSizeFor(round), round);
      expectText(said(res.headers['content-type'], await whole(res)), mark, keptSizeFor(round));
    }
    session.client.close();
  },
  [STOPS]: async (name) => {
    const client = new Client();
    const session = await Legacy.open('2025-06-18');
    for (let round = 0; round < ROUNDS / 3; round++) {
      const mark = `${name}-${round}`;
      const res = await modern(client, 'both', mark, HUGE);
      expectText(said(res.headers['content-type'], await halting(res, () => sleep(200))), mark, HUGE);
      const old = await session.call('both', mark, HUGE, round);
      expectText(said(old.headers['content-type'], await halting(old, () => sleep(200))), mark, HUGE);
    }
    client.close();
    session.client.close();
  },
  'a client that disconnects in the middle': async (name) => {
    for (let round = 0; round < ROUNDS; round++) {
      const mark = `${name}-${round}`;
      const size = round % 2 === 0 ? HUGE : sizeFor(round);
      const client = new Client();
      const res = await modern(client, SERVERS[round % 2]!, mark, size);
      const had = await cut(res, 1 + ((round * 7_919) % size));
      const at = had.indexOf(mark);
      if (at >= 0)
        expect(textFor(mark, size).startsWith(had.slice(at, at + Math.min(size, had.length - at - 1_000)))).toBe(true);
      client.close();
    }
  },
  'a client that cancels': async (name) => {
    const session = await Legacy.open('2025-11-25');
    for (let round = 0; round < ROUNDS; round++) {
      const client = new Client();
      const waiting = modern(client, 'both', `${name}-${round}-given-up`, 1_000_000, 20 + round * 3).catch(
        () => undefined,
      );
      const old = session
        .call('new', `${name}-${round}-cancelled`, keptSizeFor(round), round, 20 + round * 3)
        .then(whole, () => '');
      await sleep(30);
      client.close();
      const beside = new Client();
      await session.say({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: round } }, beside);
      beside.close();
      await Promise.all([waiting, old]);
    }
    session.client.close();
  },
  'a client that reconnects for the rest of a reply': async (name) => {
    const session = await Legacy.open('2025-11-25');
    for (let round = 0; round < ROUNDS / 2; round++) {
      const mark = `${name}-${round}`;
      const size = round % 2 === 0 ? 900_000 : 300_000;
      const lost = new Client();
      const had = await cut(await session.call(SERVERS[round % 2]!, mark, size, round, undefined, lost), 2_000);
      lost.close();
      // Its other messages use another connection.
      const next = await session.call('both', `${mark}-next`, 100_000, 1_000 + round);
      expectText(said(next.headers['content-type'], await whole(next)), `${mark}-next`, 100_000);
      expectText(await session.resume(primingOf(had), 50), mark, size);
      expectText(await session.resume(primingOf(had), 0), mark, size);
    }
    session.client.close();
  },
  [READS_AGAIN]: async (name) => {
    const session = await Legacy.open('2025-11-25');
    for (let round = 0; round < ROUNDS / 3; round++) {
      const mark = `${name}-${round}`;
      const body = await whole(await session.call('both', mark, HUGE, round));
      expectText(said('text/event-stream', body), mark, HUGE);
      const again = await session.resume(primingOf(body), 200, async () => {
        // On the connection of the first reply. This call drops that reply, while another connection reads it again.
        const next = await session.call('both', `${mark}-next`, HUGE, 1_000 + round);
        expectText(said('text/event-stream', await whole(next)), `${mark}-next`, HUGE);
      });
      expectText(again, mark, HUGE);
    }
    session.client.close();
  },
};

describe('large responses', () => {
  it('contain no byte of another response under concurrent behavior of all kinds', async () => {
    await Promise.all(
      Object.entries(behaviours).flatMap(([who, behave], kind) =>
        Array.from({ length: countOf(who) }, (_, n) =>
          behave(`mark-${kind}-${n}`).catch((error: Error) => {
            throw new Error(`${who} (${n}): ${error.message}`, { cause: error });
          }),
        ),
      ),
    );
  });

  it('are correct while another client reads an old reply slowly', async () => {
    const session = await Legacy.open('2025-11-25');
    const id = primingOf(await whole(await session.call('both', 'kept', HUGE, 1)));
    // Requested twice on one unread connection, so that the second copy exceeds the system's buffers.
    const { hostname, port, pathname } = new URL(world.mcp);
    const lines = Object.entries({ ...session.headers, accept: 'text/event-stream', 'last-event-id': id });
    const head = `GET ${pathname} HTTP/1.1\r\nhost: ${hostname}:${port}\r\n${lines.map((line) => line.join(': ')).join('\r\n')}\r\n\r\n`;
    const socket = connect({ host: hostname, port: Number(port) });
    const chunks: Buffer[] = [];
    await once(socket, 'connect');
    socket.write(head + head);
    await sleep(300);
    for (let n = 0; n < 3; n++) {
      const next = await session.call('both', `next-${n}`, HUGE, 2 + n);
      expectText(said(next.headers['content-type'], await whole(next)), `next-${n}`, HUGE);
    }
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    await eventually(
      async () => chunks.reduce((sum, chunk) => sum + chunk.length, 0),
      (size) => size > 2 * HUGE,
    );
    socket.destroy();
    const text = Buffer.concat(chunks).toString('latin1');
    // Some occurrences may be cut in two by the framing.
    expect(text.split('kept ').length).toBeGreaterThan((2 * HUGE) / 5 - 1_000);
    session.client.close();
  });

  it('are dropped once read, and kept if they came through a proxy', async () => {
    const session = await Legacy.open('2025-11-25');
    const first = primingOf(await whole(await session.call('both', 'direct', 100_000, 1)));
    await whole(await session.call('both', 'after', 10, 2));
    const gone = new Client();
    const headers = { ...session.headers, accept: 'text/event-stream', 'last-event-id': first };
    const res = await gone.begin('GET', headers);
    expect(res.statusCode).toBe(200);
    const refusal = JSON.parse(/^data: (.*)$/m.exec(await whole(res))![1]!);
    expect(refusal).toMatchObject({ id: 1, error: { data: { reason: 'event_not_found', outcome: 'unknown' } } });
    gone.close();

    const message = { jsonrpc: '2.0', id: 3, method: 'tools/call', params: params('both', 'proxied', 100_000) };
    const proxied = { ...session.headers, 'x-forwarded-for': '192.0.2.7' };
    const id = primingOf(await whole(await session.client.begin('POST', proxied, message)));
    await whole(await session.client.begin('POST', proxied, { jsonrpc: '2.0', id: 4, method: 'ping' }));
    expectText(await session.resume(id, 0), 'proxied', 100_000);
    session.client.close();
  });

  it('do not keep the buffer they arrived in if they are a small part of it', async () => {
    const message = (id: number) => ({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name: 'both__padded', arguments: { mark: `small-${id}`, size: 30_000 } },
    });
    const before = world.memory();
    const sessions: Legacy[] = [];
    let last = '';
    for (let n = 0; n < 8; n++) {
      const session = await Legacy.open('2025-11-25');
      sessions.push(session);
      // Behind a proxy, so that the next message does not drop anything.
      const headers = { ...session.headers, 'x-forwarded-for': '192.0.2.7' };
      for (let id = 0; id < 16; id++) {
        const body = await whole(await session.client.begin('POST', headers, message(id)));
        expectText(said('text/event-stream', body), `small-${id}`, 30_000);
        if (id === 3) last = primingOf(body);
      }
    }
    // All bodies together have half a gigabyte; the parts that are kept have four megabytes.
    expect(world.memory() - before).toBeLessThan(200);
    expectText(await sessions.at(-1)!.resume(last, 0), 'small-3', 30_000);
    for (const session of sessions) session.client.close();
  });
});
