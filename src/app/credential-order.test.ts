/** S11: the gateway obtains tokens for a registered upstream only from addresses that the egress rules allow. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startCluster } from '../../test/support/state-engines.js';
import { GATEWAY } from '../core/caller.js';
import type { Credentials, CredentialTarget, UpstreamAuth } from '../identity/upstream-credentials.js';
import { buildAgent } from '../outbound/a2a/build-agent.js';
import { Egress } from '../outbound/egress.js';
import { buildUpstream } from '../outbound/mcp/build-upstream.js';
import { SafeHttp } from '../outbound/safe-http.js';
import type { State } from '../state/index.js';
import { SILENT } from '../telemetry/log.js';
import { credentialServices, credentialsOf } from './credential-order.js';
import { upstreamFetch } from './upstream-logins.js';

const closing: (() => unknown)[] = [];
let state: State;
let asked: string[];
/** A service in the private network of the gateway. */
let inside: string;
let port: number;

beforeEach(async () => {
  const cluster = await startCluster('sqlite');
  closing.push(() => cluster.stop());
  state = await cluster.open();
  asked = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    const metadata = { issuer: inside, token_endpoint: `${inside}/token` };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(request.method === 'GET' ? metadata : { access_token: 't', token_type: 'Bearer' }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => server.close());
  port = (server.address() as AddressInfo).port;
  inside = `http://127.0.0.1:${port}`;
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** The port is allowed, so that only the address can cause a refusal. */
function rules(allow: readonly string[] = []): SafeHttp {
  const egress = new Egress({ allowPrivate: false, ports: [port], allow });
  const safeHttp = new SafeHttp({ egress, connectTimeout: 2_000 });
  closing.push(() => safeHttp.close());
  return safeHttp;
}

function credentials(): Credentials {
  const parts = credentialServices(state, SILENT);
  closing.push(() => parts.close());
  return credentialsOf(parts, []);
}

const around = { limits: { event: 100_000 }, explains: true, log: SILENT };
const timeouts = { connect: 2_000, call: 2_000, callMax: 2_000 };
const url = 'https://upstream.example/mcp';

/** The target that a built server or agent hands to its credentials. */
function targetOf(kind: 'server' | 'agent', auth: UpstreamAuth, guard: SafeHttp | undefined): CredentialTarget {
  let target: CredentialTarget | undefined;
  const seen: Credentials = {
    for: () => ({ key: '', headers: [] }),
    prepare: (given) => {
      target = given;
    },
  };
  const options = { ...around, credentials: seen, ...(guard && { guard }) };
  const settings = { url, headers: {}, auth, tls: {}, timeouts };
  if (kind === 'server') {
    const upstream = buildUpstream(
      'one',
      { ...settings, args: [], env: {}, transport: 'auto', revision: 'auto', pool: 1 },
      {
        ...options,
        sessionIdle: 60_000,
        clientInfo: { name: 'test', version: '1' },
        verdicts: { recall: () => undefined, remember: () => {} },
      },
    );
    closing.push(() => upstream.close());
  } else {
    const { client: guarded, egress } = rules();
    const agent = buildAgent(
      'one',
      { ...settings, version: 'auto', binding: 'auto', signatures: 'ignore' },
      { ...options, guarded, egress },
    );
    closing.push(() => agent.close());
  }
  return target!;
}

describe.each(['server', 'agent'] as const)('the token for a registered %s', (kind) => {
  const client = { clientId: 'a', clientSecret: 'b' };
  const auth = (place: object): UpstreamAuth => ({ clientCredentials: { ...client, ...place }, tokenExchange: {} });
  const tokenFor = async (target: CredentialTarget) => (await credentials().for(GATEWAY, target)).headers;

  test.each(['tokenUrl', 'issuer'])('does not come from a private address in %s', async (key) => {
    const target = targetOf(kind, auth({ [key]: inside }), rules());
    await expect(tokenFor(target)).rejects.toThrow('the issuer cannot be reached');
    expect(asked).toEqual([]);
  });

  test('comes from a private address that egress.allow names', async () => {
    const target = targetOf(kind, auth({ issuer: inside }), rules(['127.0.0.1']));
    expect(await tokenFor(target)).toEqual(['Authorization', 'Bearer t']);
    expect(asked.at(-1)).toBe('/token');
  });

  test('comes from any address if the operator wrote the settings', async () => {
    const target = targetOf(kind, auth({ tokenUrl: inside }), undefined);
    expect(await tokenFor(target)).toEqual(['Authorization', 'Bearer t']);
  });
});

test('sign-ins at a registered upstream reach no private address, also at its own origin and issuer', async () => {
  const statusOf = async (safeHttp: SafeHttp, place: string, issuer: string | undefined, guarded: boolean) => {
    const { fetch, client } = upstreamFetch(safeHttp, undefined, place, { issuer }, guarded);
    closing.push(() => client.close());
    return (await fetch(`${inside}/metadata`)).status;
  };
  await expect(statusOf(rules(), inside, undefined, true)).rejects.toThrow('not allowed');
  await expect(statusOf(rules(), url, inside, true)).rejects.toThrow('not allowed');
  expect(asked).toEqual([]);
  expect(await statusOf(rules(['127.0.0.1']), url, inside, true)).toBe(200);
  expect(await statusOf(rules(), url, inside, false)).toBe(200);
});
