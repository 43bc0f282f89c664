/**
 * The cost of authentication: the same small call at a gateway without `auth`, and at one that knows tokens, API keys
 * and access tokens of an issuer, in alternated rounds. The audit trail of calls, which `auth` switches on, has a row
 * of its own: its database thread shares the one core of the process under test.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { startIssuer } from '../identity/support.js';
import { BIN, startGateway } from '../support/gateway.js';
import { type Generator, HELPING, type Measured, on, startUpstream, TESTED } from './rig.js';
import { type Job, SIZES, TOOL } from './wire.js';

const TOKEN = 'bench-0123456789-Kj8sLq2vXz7mNw4pRt6y';
const CONNECTIONS = 32;

export interface AuthenticationTimes {
  readonly rounds: number;
  /** Milliseconds of one measurement. */
  readonly rate: number;
  /** Calls before the measurement. */
  readonly warm: number;
}

type Keep = <T extends { close(): Promise<unknown> }>(starting: Promise<T>) => Promise<T>;

/** The measurements of each way to authenticate, by its name, in the order of the rounds. */
export async function measureAuthentication(
  generator: Generator,
  times: AuthenticationTimes,
  keep: Keep,
): Promise<Map<string, Measured[]>> {
  const upstream = await keep(startUpstream(HELPING, 'modern'));
  const issuer = await keep(startIssuer());
  const settings = { log: { level: 'warn' }, servers: { modern: { url: upstream.url } } };
  const auth = { tokens: [{ name: 'bench', token: TOKEN }], keys: true, jwt: [{ issuer: issuer.url }] };
  const open = await keep(startGateway(settings, { under: on(TESTED) }));
  const guarded = await keep(startGateway({ ...settings, auth, audit: { calls: 'none' } }, { under: on(TESTED) }));
  const audited = await keep(startGateway({ ...settings, auth }, { under: on(TESTED) }));
  const made = await promisify(execFile)(process.execPath, [
    BIN,
    'keys',
    'create',
    'ci',
    '--config',
    guarded.file,
    '--json',
  ]);
  const { key } = JSON.parse(made.stdout) as { key: string };
  const jwt = await issuer.token({
    sub: 'bench',
    aud: `${guarded.url}/mcp`,
    exp: Math.floor(Date.now() / 1_000) + 3_600,
  });
  const ways: readonly (readonly [name: string, gateway: typeof open, token: string | undefined])[] = [
    ['no auth', open, undefined],
    ['static token', guarded, TOKEN],
    ['API key', guarded, key],
    ['JWT', guarded, jwt],
    ['static token, calls audited', audited, TOKEN],
  ];
  const found = new Map<string, Measured[]>(ways.map(([name]) => [name, []]));
  const jobOf = (url: string, token: string | undefined): Job => ({
    url: `${url}/mcp`,
    era: 'modern',
    tool: `modern__${TOOL}`,
    size: SIZES[0],
    connections: CONNECTIONS,
    ...(token !== undefined && { token }),
  });
  for (const [, { url, pid }, token] of ways) await generator.run({ ...jobOf(url, token), calls: times.warm }, pid);
  for (let round = 0; round < times.rounds; round++) {
    for (let i = 0; i < ways.length; i++) {
      const [name, { url, pid }, token] = ways[(i + round) % ways.length]!;
      found.get(name)!.push(await generator.run({ ...jobOf(url, token), milliseconds: times.rate }, pid));
    }
  }
  return found;
}
