/** A gateway in the process of the test, with servers for the REST routes. Bob sees the server `open`, Ada sees all. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunningGateway } from '../../src/app/running-gateway.js';
import { startServe } from '../../src/app/serve.js';
import { configFrom } from '../../src/config/load.js';
import { SILENT } from '../../src/telemetry/log.js';
import { type EchoServer, startEcho } from '../input/support/echo.js';
import { type CountedUpstream, startCountedAgent } from '../pipeline/upstreams.js';
import { ADA, BOB, RULES, startItems } from '../policy/world.js';

export { ADA, BOB };

export interface RestWorld {
  readonly url: string;
  /** The folder with the data of the gateway. */
  readonly data: string;
  readonly gateway: RunningGateway;
  readonly echo: EchoServer;
  readonly secret: CountedUpstream;
  readonly agent: CountedUpstream;
  close(): Promise<void>;
}

/** Servers: `open` (visible to Bob), `secret` and `echo` (visible to Ada), `broken` (does not answer). */
export async function startRestWorld(more: object = {}): Promise<RestWorld> {
  const folder = await mkdtemp(join(tmpdir(), 'parley-rest-'));
  const [open, secret, echo, agent] = [
    await startItems('open'),
    await startItems('secret'),
    await startEcho(),
    await startCountedAgent(),
  ];
  const { config } = configFrom({
    listen: '127.0.0.1:0',
    egress: { allowPrivate: true },
    data: join(folder, 'data'),
    auth: {
      tokens: [
        { name: 'ada', token: ADA, admin: true },
        { name: 'bob', token: BOB },
      ],
    },
    servers: {
      open: { url: open.url, headers: { 'X-Api-Key': 'operator-key-5521' } },
      secret: { url: secret.url },
      echo: { url: echo.url, headers: { 'X-Own': 'own-value-77' }, callerHeaders: ['Authorization', 'X-Own'] },
      broken: { url: 'http://127.0.0.1:9/mcp' },
      quiet: { url: open.url, invocation: false },
      login: { url: 'http://127.0.0.1:9/mcp', auth: { oauth: { registration: 'auto' } } },
    },
    agents: { openagent: { url: agent.url, mcp: false } },
    policy: { rules: [...RULES, { name: 'quiet', when: 'server == "quiet"', effect: 'allow' }] },
    ...more,
  });
  const gateway = await startServe(config, { log: SILENT });
  await gateway.settled(10_000);
  return {
    url: gateway.url,
    data: join(folder, 'data'),
    gateway,
    echo,
    secret,
    agent,
    close: async () => {
      await gateway.close();
      for (const upstream of [open, secret, echo, agent]) await upstream.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface RestAnswer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of many forms.
  readonly body: any;
}

/** The client of the founding documents: `fetch` and `json()`, with `Accept: application/json` only. */
export async function rest(
  world: Pick<RestWorld, 'url'>,
  path: string,
  { token = BOB, method, body, headers = {} }: RestRequest = {},
): Promise<RestAnswer> {
  const reply = await fetch(`${world.url}${path}`, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      accept: 'application/json',
      ...(token !== '' && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const { status } = reply;
  return { status, headers: reply.headers, body: status === 204 ? undefined : await reply.json() };
}

export interface RestRequest {
  readonly token?: string;
  readonly method?: string;
  readonly body?: object | string;
  readonly headers?: Readonly<Record<string, string>>;
}
