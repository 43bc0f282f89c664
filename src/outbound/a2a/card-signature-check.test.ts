import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateAgentCardSignature } from '@a2a-js/sdk';
import { exportJWK, FlattenedSign, generateKeyPair, type JWK } from 'jose';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { card, json, type Script, Stage } from '../../../test/support/remote-agents.js';
import { canonicalForms } from '../../protocol/a2a/canonical-card.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import type { AgentSettings } from './build-agent.js';

const stage = new Stage();
afterEach(() => stage.close());

let privateKey: Awaited<ReturnType<typeof generateKeyPair>>['privateKey'];
let jwk: JWK;
beforeAll(async () => {
  const pair = await generateKeyPair('ES256', { extractable: true });
  ({ privateKey } = pair);
  jwk = { ...(await exportJWK(pair.publicKey)), kid: 'k1', alg: 'ES256' };
});

async function sign(unsigned: JsonObject, header: JsonObject = {}, form = 0): Promise<JsonObject> {
  const payload = Buffer.from(canonicalForms(unsigned)[form]!);
  const { protected: head, signature } = await new FlattenedSign(payload)
    .setProtectedHeader({ alg: 'ES256', kid: 'k1', typ: 'JOSE', ...header })
    .sign(privateKey);
  return { ...unsigned, signatures: [{ protected: head!, signature }] };
}

/** An agent whose card is built when its URL is known. Its keys are at `/keys`. */
const showing = (
  make: (url: string) => Promise<JsonObject> | JsonObject,
  keys: () => unknown = () => ({ keys: [jwk] }),
): Promise<Script> =>
  stage.server(async ({ path }, response, { url }) => {
    if (path === '/keys') json(response, keys());
    else json(response, await make(url));
  });

const verdict = async (server: Script, settings: Partial<AgentSettings> = {}, allowPrivate = false) => {
  const { original } = await stage.agent(server.url, settings, { allowPrivate }).facts();
  return original;
};
const keys = (): JsonObject => ({ keys: [jwk] }) as unknown as JsonObject;
const plain = (url: string): JsonObject => card([{ url }]);

describe('C-7 signatures of a card', () => {
  it('are verified with configured keys: inline, from a file, from a URL', async () => {
    const server = await showing((url) => sign(plain(url)));
    expect(await verdict(server, { keys: keys() })).toMatchObject({ signature: 'verified' });
    expect(await verdict(server, { keys: `${server.url}/keys` })).toMatchObject({ signature: 'verified' });
    const folder = mkdtempSync(join(tmpdir(), 'parley-keys-'));
    writeFileSync(join(folder, 'keys.json'), JSON.stringify(keys()));
    expect(await verdict(server, { keys: join(folder, 'keys.json') })).toMatchObject({ signature: 'verified' });
    rmSync(folder, { recursive: true });
  });

  it('are verified in both canonical forms', async () => {
    const empty = (url: string): JsonObject => ({ ...plain(url), description: '', documentationUrl: '' });
    for (const form of [0, 1]) {
      const server = await showing((url) => sign(empty(url), {}, form));
      expect(await verdict(server, { keys: keys() })).toMatchObject({ signature: 'verified' });
    }
  });

  it('made by the SDK are verified', async () => {
    const signer = generateAgentCardSignature(privateKey, { alg: 'ES256', kid: 'k1', typ: 'JOSE' });
    const server = await showing(async (url) => {
      const signed = await signer(plain(url) as never);
      return { ...plain(url), signatures: (signed as unknown as { signatures: JsonObject[] }).signatures };
    });
    expect(await verdict(server, { keys: keys() })).toMatchObject({ signature: 'verified' });
  });

  it("are verified with the keys they name at the agent's own origin", async () => {
    const server = await showing((url) => sign(plain(url), { jku: `${url}/keys` }));
    expect(await verdict(server, { signatures: 'require' })).toMatchObject({ signature: 'verified' });
  });

  it('do not make the gateway dial a forbidden address', async () => {
    const elsewhere = await stage.server((_, response) => json(response, keys()));
    const server = await showing((url) => sign(plain(url), { jku: `${elsewhere.url}/keys` }));
    expect(await verdict(server)).toMatchObject({ signature: 'unverified', why: expect.any(String) });
    expect(elsewhere.asked).toEqual([]);
    expect(await verdict(server, {}, true)).toMatchObject({ signature: 'verified' });
    await expect(verdict(server, { signatures: 'require' }, true)).rejects.toMatchObject({
      reason: 'upstream_unavailable',
    });
  });

  it('are invalid if the card was changed', async () => {
    const server = await showing(async (url) => ({ ...(await sign(plain(url))), description: 'Another.' }));
    expect(await verdict(server, { keys: keys() })).toMatchObject({ signature: 'invalid' });
    await expect(verdict(server, { keys: keys(), signatures: 'require' })).rejects.toThrow(/invalid/);
  });

  it.each(['none', 'HS256'])('of the algorithm %s are never accepted', async (alg) => {
    const server = await showing(async (url) => {
      const signed = await sign(plain(url));
      const [signature] = signed['signatures'] as JsonObject[];
      const head = Buffer.from(JSON.stringify({ alg, kid: 'k1' })).toString('base64url');
      return { ...signed, signatures: [{ ...signature, protected: head }] };
    });
    expect(await verdict(server, { keys: keys() })).toMatchObject({ signature: 'invalid' });
  });

  it('made with an expired, revoked or unknown key are not accepted', async () => {
    const server = await showing((url) => sign(plain(url)));
    for (const bad of [{ exp: 1 }, { revoked: { revoked_at: 1 } }, { kid: 'k2' }]) {
      const set = { keys: [{ ...jwk, ...bad }] } as unknown as JsonObject;
      expect(await verdict(server, { keys: set })).toMatchObject({ signature: 'unverified' });
    }
  });

  it('may be missing unless they are required, and are not checked if the check is off', async () => {
    const server = await showing(plain);
    expect(await verdict(server)).toMatchObject({ signature: 'unsigned' });
    await expect(verdict(server, { signatures: 'require' })).rejects.toThrow(/unsigned/);
    const signed = await showing((url) => sign(plain(url)));
    expect(await verdict(signed, { keys: keys(), signatures: 'ignore' })).toMatchObject({ signature: 'unverified' });
  });
});
