import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { exchange } from '../../../test/support/remote-agents.js';
import { configuredCredential } from '../../identity/upstream-credentials.js';
import { SILENT } from '../../telemetry/log.js';
import { Egress } from '../egress.js';
import { HttpClient, type ProxyRule, proxyRule, proxyRuleOf } from '../http/index.js';
import { dial, grpcTarget } from './grpc-target.js';
import { GrpcWire } from './grpc-wire.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A listener that closes every connection. */
async function listener(): Promise<{ readonly port: number; readonly reached: () => number }> {
  let reached = 0;
  const server = createServer((socket: Socket) => {
    reached++;
    socket.on('error', () => {}).destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => new Promise((resolve) => server.close(resolve)));
  return { port: (server.address() as AddressInfo).port, reached: () => reached };
}

/** Rules under which each name resolves to the next of these addresses, and then always to the last one. */
function rules(addresses: readonly string[], settings: { allowPrivate?: boolean; ports?: number[] } = {}): Egress {
  const answers = [...addresses];
  return new Egress({ allowPrivate: false, ports: [], ...settings }, (_, __, done) =>
    done(null, [{ address: answers.length > 1 ? answers.shift()! : answers[0]!, family: 4 }]),
  );
}

async function getTask(url: string, egress: Egress | undefined, proxy?: ProxyRule): Promise<() => Promise<unknown>> {
  const http = new HttpClient({ connectTimeout: 1_000, egress, proxy });
  const wire = new GrpcWire({
    context: {
      name: 'it',
      place: undefined,
      credential: () => configuredCredential({}),
      timeouts: { connect: 1_000, call: 2_000, callMax: 2_000 },
      limits: { event: 1e6, waiting: 1e6 },
      log: SILENT,
    },
    ...{ url, version: '1.0', tenant: undefined, http, egress },
  });
  closing.push(
    () => http.close(),
    () => wire.close(),
  );
  const credential = configuredCredential({});
  return () => wire.call('GetTask', { value: { id: 'x' } }, exchange(), credential).catch((error: unknown) => error);
}

describe('the address of a gRPC agent', () => {
  it('S11: is checked for every connection, also after the name resolves to another address', async () => {
    const { port, reached } = await listener();
    // Nothing listens at the first address.
    const call = await getTask(
      `http://agent.example:${port}`,
      rules(['127.0.0.9', '127.0.0.1'], { allowPrivate: true }),
    );
    expect(await call()).toMatchObject({ reason: 'upstream_unavailable' });
    expect(reached()).toBe(0);
    await call();
    expect(reached()).toBeGreaterThan(0);
  });

  it('S11: is refused if the name now resolves to a private address', async () => {
    const { port, reached } = await listener();
    const call = await getTask(`http://agent.example:${port}`, rules(['127.0.0.1'], { ports: [port] }));
    expect(await call()).toMatchObject({ reason: 'upstream_unavailable' });
    expect(reached()).toBe(0);
  });
});

describe('the proxy of a gRPC agent', () => {
  const target = grpcTarget('http://agent.example:80');

  it.each(['http://proxy.example', 'http://127.0.0.1', 'http://[::1]', 'http://2130706433', 'http://localhost'])(
    'S11: %s is not dialled at a private address if a caller supplied it',
    async (proxy) => {
      const egress = rules(['127.0.0.1']);
      // The agent itself resolves to a public address.
      const agent = rules(['93.184.216.34']);
      await expect(dial(target, agent, { proxy: proxyRuleOf(proxy, { egress }) })).rejects.toMatchObject({
        code: 'EGRESS_REFUSED',
      });
    },
  );

  it('is dialled at a checked address, and opens a tunnel to a checked address of the agent', async () => {
    const egress = rules(['93.184.216.34'], { ports: [3128] });
    const proxy = proxyRuleOf('http://ada:secret@proxy.example:3128', { egress });
    expect(await dial(target, egress, { proxy })).toMatchObject({
      address: 'ipv4:93.184.216.34:3128',
      options: { 'grpc.http_connect_target': '93.184.216.34:80', 'grpc.http_connect_creds': 'ada:secret' },
    });
  });

  it('may be private if the operator wrote it', async () => {
    const dialled = await dial(target, rules(['93.184.216.34']), { proxy: proxyRule('http://127.0.0.1:3128') });
    expect(dialled).toMatchObject({
      address: '127.0.0.1:3128',
      options: { 'grpc.http_connect_target': '93.184.216.34:80' },
    });
  });
});
