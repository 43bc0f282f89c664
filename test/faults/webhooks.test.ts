/** Fault 29: misbehaving receivers of notifications, and the fate of the notifications. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { exportJWK, generateKeyPair, importJWK, jwtVerify, SignJWT } from 'jose';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { webhookSignature } from '../../src/outbound/webhooks/headers-and-signature.js';
import type { TaskPushNotificationConfig } from '../../src/protocol/a2a/model.js';
import {
  ALICE,
  type Behaviour,
  idOf,
  ok,
  Receiver,
  Rig,
  type RigOptions,
  sleep,
  status,
  until,
} from './webhook-rig.js';

let data: string;
let rigs: Rig[];
let receivers: Receiver[];
let children: ChildProcess[];

beforeEach(() => {
  data = mkdtempSync(join(tmpdir(), 'parley-webhooks-'));
  rigs = [];
  receivers = [];
  children = [];
});
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  // Connections that wait for an answer are closed first.
  await Promise.all(receivers.map((receiver) => receiver.stop()));
  await Promise.all(rigs.map((rig) => rig.close()));
  rmSync(data, { recursive: true, force: true });
});

async function open(options: Omit<RigOptions, 'state'> = {}): Promise<Rig> {
  const rig = await Rig.open({ state: { data }, ...options });
  rigs.push(rig);
  return rig;
}

async function receive(behave?: Behaviour): Promise<Receiver> {
  const receiver = await Receiver.start(behave);
  receivers.push(receiver);
  return receiver;
}

const textOf = (body: string): string => JSON.parse(body).statusUpdate.status.message.parts[0].text;
const lastError = async (rig: Rig): Promise<string> => {
  const rows = await rig.state.db.q<{ error: string | null }>('SELECT error FROM outbox ORDER BY id');
  return rows.map(({ error }) => error ?? '').join(';');
};

describe('S1-43: a receiver that fails', () => {
  test('S-52 G-51: an hour of status 500: the notifications are delivered afterwards, in order, at least once, with the ids of the first attempts', async () => {
    const receiver = await receive(status(500));
    // The schedule runs 5,000 times faster: 0 s, 5 s, 35 s, 2.5 min, 12.5 min, 42.5 min, and then two hours later.
    const rig = await open({ outbox: { random: () => 0.000_2 } });
    const key = await rig.task('t1', { url: receiver.url() });
    const ids: string[] = [];
    for (const text of ['one', 'two', 'three']) ids.push(...(await rig.news(key, text)));
    rig.sender.start();
    await until('six attempts', () => receiver.got.length >= 6);
    expect(new Set(receiver.got.map(idOf))).toEqual(new Set([ids[0]]));
    expect(new Set(receiver.got.map(({ body }) => body)).size).toBe(1);
    receiver.behave = ok;
    await until('everything delivered', () => rig.empty());
    expect(receiver.ids()).toEqual(ids);
    expect([...new Set(receiver.got.map(({ body }) => textOf(body)))]).toEqual(['one', 'two', 'three']);
    expect((await rig.records.pushes(key))[0]).toMatchObject({ failures: 0, disabled: false });
  });

  test('S-53: a hanging receiver times out, and the delivery is repeated', async () => {
    const receiver = await receive(() => {});
    const rig = await open({ sender: { budgetMs: 200 } });
    const key = await rig.task('t1', { url: receiver.url() });
    await rig.news(key, 'hello');
    rig.sender.start();
    await until('a second attempt', () => receiver.got.length >= 2);
    expect(await lastError(rig)).toContain('no answer within 200 ms');
    receiver.behave = ok;
    await until('delivered', () => rig.empty());
    await until('hanging connections closed', () => receiver.open <= 1);
  });

  test('S-53: a receiver that sends its status line slowly times out in the same way', async () => {
    let asked = 0;
    const dripping = createServer((socket) => {
      asked += 1;
      const text = `HTTP/1.1 200 OK\r\nX-Long: ${'x'.repeat(10_000)}`;
      let at = 0;
      const drip = setInterval(() => socket.write(text[at++] ?? 'x'), 5);
      socket.on('close', () => clearInterval(drip)).on('error', () => {});
    });
    await new Promise<void>((resolve) => dripping.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = dripping.address() as { port: number };
      const rig = await open({ sender: { budgetMs: 200 } });
      await rig.news(await rig.task('t1', { url: `http://127.0.0.1:${port}/` }), 'hello');
      rig.sender.start();
      await until('a second attempt', () => asked >= 2);
      expect(await lastError(rig)).toContain('no answer');
    } finally {
      dripping.close();
    }
  });

  test('a slow body after a 2xx causes no delay, because only the status counts', async () => {
    let cut = 0;
    const receiver = await receive((_, res) => {
      res.writeHead(200, { 'Content-Type': 'text/plain' });
      const drip = setInterval(() => res.write('.'), 20);
      res.on('close', () => {
        clearInterval(drip);
        cut += 1;
      });
    });
    const rig = await open();
    const key = await rig.task('t1', { url: receiver.url() });
    for (const text of ['one', 'two', 'three']) await rig.news(key, text);
    rig.sender.start();
    await until('delivered', () => rig.empty());
    expect(receiver.got.map(({ body }) => textOf(body))).toEqual(['one', 'two', 'three']);
    await until('dripping answers cut off', () => cut === 3);
  });

  test('an answer of 10 MB is not read completely', async () => {
    let whole = 0;
    let cut = 0;
    const receiver = await receive((_, res) => {
      const piece = Buffer.alloc(64 * 1024, 'x');
      let left = 160;
      res.writeHead(200);
      const more = (): void => {
        while (left > 0) {
          left -= 1;
          if (!res.write(piece)) return;
        }
        res.end();
      };
      res.on('drain', more);
      res.on('close', () => {
        if (res.writableFinished) whole += 1;
        else cut += 1;
      });
      more();
    });
    const rig = await open();
    const key = await rig.task('t1', { url: receiver.url() });
    await rig.news(key, 'hello');
    rig.sender.start();
    await until('delivered', () => rig.empty());
    await until('the connection is over', () => whole + cut > 0);
    expect({ whole, cut }).toEqual({ whole: 0, cut: 1 });
    expect(receiver.got).toHaveLength(1);
  });

  test('S-53: a redirect is a failure and is not followed, for any target', async () => {
    const inside = await receive();
    const receiver = await receive(status(302, { Location: 'http://169.254.169.254/latest/meta-data/' }));
    const rig = await open();
    const key = await rig.task('t1', { url: receiver.url() });
    await rig.news(key, 'hello');
    rig.sender.start();
    await until('asked again', () => receiver.got.length >= 2);
    receiver.behave = status(307, { Location: inside.url() });
    const before = receiver.got.length;
    await until('asked again', () => receiver.got.length >= before + 2);
    expect(await lastError(rig)).toContain('HTTP 307');
    expect(inside.connections).toBe(0);
    receiver.behave = ok;
    await until('delivered', () => rig.empty());
  });

  test('410: nothing more is sent there; dead notifications are listed and can be replayed with the same id', async () => {
    const receiver = await receive(status(410));
    const rig = await open();
    const key = await rig.task('t1', { url: receiver.url() });
    const [id] = await rig.news(key, 'one');
    await rig.news(key, 'two');
    rig.sender.start();
    await until('given up', () => rig.empty());
    expect(receiver.got).toHaveLength(1);
    expect(await rig.news(key, 'three')).toEqual([]);
    const { notifications, next } = await rig.letters.deadLetters('alice', { limit: 1 });
    expect(notifications).toMatchObject([{ id, owner: 'alice', task: 't1', error: 'HTTP 410: the receiver is gone' }]);
    expect((await rig.letters.deadLetters('alice', { after: next! })).notifications).toMatchObject([{ seq: 3 }]);
    expect((await rig.letters.deadLetters('mallory')).notifications).toEqual([]);
    expect(await rig.letters.replay(id!, 'mallory')).toBe(false);
    receiver.behave = ok;
    expect(await rig.letters.replay(id!)).toBe(true);
    await until('replayed', () => receiver.got.length === 2);
    expect(idOf(receiver.got[1]!)).toBe(id);
    expect(await rig.news(key, 'four')).toHaveLength(1);
  });

  test('410: nothing more is sent there, even if disabling the configuration takes some time', async () => {
    const receiver = await receive(status(410));
    const rig = await open();
    const key = await rig.task('t1', { url: receiver.url() });
    for (const text of ['one', 'two']) await rig.news(key, text);
    let claims = 0;
    const claim = rig.outbox.claim.bind(rig.outbox);
    rig.outbox.claim = (...args) => claim(...args).finally(() => (claims += 1));
    const disable = rig.pushes.disable.bind(rig.pushes);
    rig.pushes.disable = async (...args) => {
      // The queue is claimed several times meanwhile.
      const before = claims;
      await until('the queue is read', () => claims >= before + 5);
      await disable(...args);
    };
    rig.sender.start();
    await until('given up', () => rig.empty());
    expect(receiver.got).toHaveLength(1);
    expect((await rig.letters.deadLetters()).notifications).toHaveLength(2);
  });

  test('S-53: deliveries are given up after too long without a success, and the configuration is disabled', async () => {
    const receiver = await receive(status(500));
    const rig = await open({ outbox: { giveUpMs: 300 } });
    const key = await rig.task('t1', { url: receiver.url() });
    await rig.news(key, 'one');
    await rig.news(key, 'two');
    rig.sender.start();
    await until('given up', () => rig.empty());
    const { notifications } = await rig.letters.deadLetters();
    expect(notifications.map(({ error }) => error)).toEqual(['HTTP 500', 'the configuration is disabled']);
    expect((await rig.records.pushes(key))[0]).toMatchObject({ disabled: true });
  });

  test.each([429, 503])('%i: the Retry-After of the receiver is respected', async (code) => {
    const receiver = await receive(status(code, { 'Retry-After': '1' }));
    const rig = await open();
    await rig.news(await rig.task('t1', { url: receiver.url() }), 'hello');
    rig.sender.start();
    await until('one attempt', () => receiver.got.length === 1);
    receiver.behave = ok;
    await until('delivered', () => rig.empty());
    const [first, second] = receiver.got;
    expect(second!.at - first!.at).toBeGreaterThanOrEqual(990);
  });
});

describe('several receivers', () => {
  test('G-51: a dead receiver does not delay others, and has few connections at once', async () => {
    const dead = await receive(() => {});
    const alive = await receive();
    const rig = await open();
    const stuck = await Promise.all(
      Array.from({ length: 30 }, (_, i) => rig.task(`dead${i}`, { url: dead.url(`/${i}`) })),
    );
    for (const key of stuck) await rig.news(key, 'never');
    const keys = await Promise.all(
      Array.from({ length: 30 }, (_, i) => rig.task(`alive${i}`, { url: alive.url(`/${i}`) })),
    );
    for (const key of keys) for (const text of ['one', 'two']) await rig.news(key, text);
    rig.sender.start();
    await until('all of the living', () => alive.got.length === 60);
    // None of the attempts at the dead receiver has ended by then.
    expect(dead.got).toHaveLength(5);
    expect(dead.open).toBe(5);
    for (let i = 0; i < 30; i++) {
      const texts = alive.got.filter(({ path }) => path === `/${i}`).map(({ body }) => textOf(body));
      expect(texts).toEqual(['one', 'two']);
    }
  });

  test('G-51: a host that always fails is skipped for a while; one bad URL on a good host does not affect others', async () => {
    const dead = await receive(status(500));
    const shared = await receive((req, res) => (req.url === '/bad' ? status(404) : ok)(req, res));
    const rig = await open({ sender: { restMs: 600_000 } });
    for (let i = 0; i < 20; i++) await rig.news(await rig.task(`dead${i}`, { url: dead.url(`/${i}`) }), 'x');
    const bad = await rig.task('bad', { url: shared.url('/bad') });
    await rig.news(bad, 'x');
    rig.sender.start();
    await until('left alone', () => dead.got.length >= 10);
    await until('a bad URL has many attempts', () => shared.got.length >= 5);
    const asked = dead.got.length;
    // Attempts that were under way together may all have failed.
    expect(asked).toBeLessThan(15);
    await rig.news(await rig.task('good', { url: shared.url('/good') }), 'x');
    await until('its neighbour', () => shared.ids('/good').length === 1);
    await sleep(200);
    expect(dead.got).toHaveLength(asked);
  });

  test('G-51: after the pause a host gets one attempt, and after its success all waiting notifications', async () => {
    const receiver = await receive(status(500));
    const rig = await open({ sender: { restMs: 300 } });
    for (let i = 0; i < 20; i++) await rig.news(await rig.task(`t${i}`, { url: receiver.url(`/${i}`) }), 'x');
    rig.sender.start();
    await until('left alone', () => receiver.got.length >= 10);
    receiver.behave = ok;
    await until('delivered', () => rig.empty());
    expect(receiver.ids()).toHaveLength(20);
  });
});

describe('names and addresses', () => {
  const settings = (port: number) => ({ allowPrivate: false, ports: [port] });

  test('S-53 S1-64: a name that resolves to a private address only at the time of connection is refused (DNS rebinding)', async () => {
    const receiver = await receive();
    const answers = [[{ address: '127.0.0.1', family: 4 }], [{ address: '::ffff:127.0.0.1', family: 6 }]];
    answers.push([...answers[0]!, { address: '93.184.215.14', family: 4 }]);
    let asked = 0;
    const rig = await open({
      egress: settings(receiver.port),
      lookup: (_name, _options, done) => done(null, answers[asked++ % answers.length]!),
    });
    const key = await rig.task('t1', { url: `http://rebind.example:${receiver.port}/` });
    await rig.news(key, 'secret');
    rig.sender.start();
    await until('tried', () => asked >= 4);
    expect(receiver.connections).toBe(0);
    expect(await lastError(rig)).toMatch(/not allowed/);
  });

  test('S-53 S1-43: a private address is refused at registration', async () => {
    const rig = await open({ egress: settings(80) });
    for (const url of [
      'http://127.0.0.1/',
      'http://169.254.169.254/',
      'http://[::1]/',
      'http://0x7f000001/',
      'ftp://a.b/',
    ])
      await expect(rig.task('t1', { url })).rejects.toMatchObject({ reason: 'invalid_params' });
  });

  test('a name that does not resolve is a failed attempt, which is repeated until the name resolves', async () => {
    const receiver = await receive();
    let exists = false;
    let asked = 0;
    const rig = await open({
      lookup: (name, _options, done) => {
        asked += 1;
        const missing = Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), { code: 'ENOTFOUND' });
        if (exists) done(null, [{ address: '127.0.0.1', family: 4 }]);
        else done(missing, []);
      },
    });
    await rig.news(await rig.task('t1', { url: `http://later.example:${receiver.port}/` }), 'hello');
    rig.sender.start();
    await until('tried', () => asked >= 2);
    expect(await lastError(rig)).toBe('ENOTFOUND');
    exists = true;
    await until('delivered', () => rig.empty());
    expect(receiver.got).toHaveLength(1);
  });
});

describe('the content of deliveries', () => {
  const config = (url: string): TaskPushNotificationConfig => ({
    url,
    token: 'tok-ALICE-123',
    authentication: { scheme: 'Bearer', credentials: 'cred-ALICE-456' },
  });

  test('S-52 G-51: the configured token and credentials, and the signatures of standard-webhooks and of the gateway', async () => {
    const receiver = await receive();
    const { publicKey, privateKey } = await generateKeyPair('ES256');
    const rig = await open({
      signing: {
        issuer: 'https://gateway.example',
        sign: (claims) => new SignJWT({ ...claims }).setProtectedHeader({ alg: 'ES256', kid: 'k' }).sign(privateKey),
      },
    });
    const key = await rig.task('t1', config(receiver.url('/hook?secret=q')));
    const [id] = await rig.news(key, 'hello');
    rig.sender.start();
    await until('delivered', () => rig.empty());
    const { headers, body, path } = receiver.got[0]!;
    expect(path).toBe('/hook?secret=q');
    expect(headers).toMatchObject({
      'content-type': 'application/a2a+json',
      'x-a2a-notification-token': 'tok-ALICE-123',
      authorization: 'Bearer cred-ALICE-456',
      'webhook-id': id,
    });
    const seconds = Number(headers['webhook-timestamp']);
    expect(Math.abs(seconds - Date.now() / 1_000)).toBeLessThan(60);
    expect(headers['webhook-signature']).toBe(
      webhookSignature(Buffer.from('tok-ALICE-123'), id!, seconds, Buffer.from(body)),
    );
    const jwks = await importJWK(await exportJWK(publicKey), 'ES256');
    const { payload } = await jwtVerify(String(headers['x-a2a-signature']), jwks, {
      issuer: 'https://gateway.example',
      audience: new URL(receiver.url()).origin,
    });
    expect(payload).toMatchObject({
      taskId: 't1',
      request_body_sha256: createHash('sha256').update(body).digest('hex'),
    });
    expect(payload.exp! - payload.iat!).toBeLessThanOrEqual(300);
  });

  test('secrets are neither stored in plain text nor logged', async () => {
    const receiver = await receive(status(500));
    const rig = await open();
    const key = await rig.task('t1', config(receiver.url('/hook-SECRET-789')));
    await rig.news(key, 'hello');
    rig.sender.start();
    await until('tried', () => receiver.got.length >= 3);
    const kept = JSON.stringify(await rig.state.db.q('SELECT * FROM agent_pushes'));
    const queued = JSON.stringify(await rig.state.db.q('SELECT * FROM outbox'));
    expect(rig.logged.length).toBeGreaterThan(0);
    for (const text of [kept, queued, rig.logged.join('\n')]) {
      expect(text).toContain('127.0.0.1');
      expect(text).not.toMatch(/tok-ALICE|cred-ALICE|hook-SECRET/);
    }
  });

  test('S-51: nothing is delivered after a delete, not even to a later configuration with the same id', async () => {
    const receiver = await receive(status(500));
    const rig = await open();
    const key = await rig.task('t1', { url: receiver.url('/old'), id: 'c' });
    await rig.news(key, 'one');
    await rig.news(key, 'two');
    rig.sender.start();
    await until('tried', () => receiver.got.length >= 2);
    await rig.pushes.remove(ALICE, key, { taskId: key.id, id: 'c' });
    receiver.behave = ok;
    // One attempt may have been under way.
    await sleep(50);
    const before = receiver.got.length;
    await rig.pushes.create(ALICE, key, { url: receiver.url('/new'), id: 'c' }, '1.0');
    await until('dropped', () => rig.empty());
    expect(receiver.got.length).toBe(before);
    expect((await rig.letters.deadLetters()).notifications).toEqual([]);
    await rig.news(key, 'three');
    await until('delivered', () => rig.empty());
    expect(receiver.got.slice(before).map(({ path, body }) => [path, textOf(body)])).toEqual([['/new', 'three']]);
  });
});

describe('replicas', () => {
  const CHILD = fileURLToPath(new URL('./webhook-child.ts', import.meta.url));
  const LOADER = new URL('../support/ts.mjs', import.meta.url).href;

  async function start(options: Omit<RigOptions, 'state'>): Promise<ChildProcess> {
    const env = { ...process.env, RIG: JSON.stringify({ state: { data }, ...options }) };
    const child = spawn(process.execPath, ['--import', LOADER, CHILD], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    await new Promise<void>((resolve, reject) => {
      child.stdout!.once('data', () => resolve());
      child.once('exit', (code) => reject(new Error(`the replica ended with ${code}`)));
    });
    return child;
  }

  test('G-51: another replica takes over the deliveries of a killed one, in order', async () => {
    const receiver = await receive(() => {});
    const options = { outbox: { leaseMs: 1_500 }, sender: { budgetMs: 1_000 } };
    const rig = await open(options);
    const key = await rig.task('t1', { url: receiver.url() });
    const ids: string[] = [];
    for (const text of ['one', 'two', 'three']) ids.push(...(await rig.news(key, text)));
    const child = await start(options);
    await until('a delivery is under way', () => receiver.got.length === 1);
    child.kill('SIGKILL');
    await until('its connection is gone', () => receiver.open === 0);
    receiver.behave = ok;
    rig.sender.start();
    await until('taken over', () => rig.empty());
    expect(receiver.ids()).toEqual(ids);
    expect(receiver.got.map(idOf)).toEqual([ids[0], ...ids]);
  });

  test('G-51: two replicas share the work and send nothing twice while both are alive', async () => {
    const receiver = await receive((_, res) => void setTimeout(() => res.writeHead(204).end(), 5));
    const rig = await open();
    const keys = await Promise.all(
      Array.from({ length: 10 }, (_, i) => rig.task(`t${i}`, { url: receiver.url(`/${i}`) })),
    );
    const child = await start({});
    rig.sender.start();
    for (const text of ['one', 'two', 'three', 'four']) for (const key of keys) await rig.news(key, text);
    await until('delivered', () => rig.empty());
    expect(receiver.got).toHaveLength(40);
    for (let i = 0; i < 10; i++) {
      const texts = receiver.got.filter(({ path }) => path === `/${i}`).map(({ body }) => textOf(body));
      expect(texts).toEqual(['one', 'two', 'three', 'four']);
    }
    expect(child.exitCode).toBeNull();
  });
});
