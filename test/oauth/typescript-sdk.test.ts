import type { Client } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { connect, MemoryProvider, signIn } from './sdk-client.js';
import { addUser, listTools, type OAuthGateway, PASSWORD, parley, startOAuthGateway } from './stand.js';

const ADA = { name: 'ada', password: PASSWORD };

let gateway: OAuthGateway;
beforeAll(async () => {
  gateway = await startOAuthGateway();
  await addUser(gateway);
}, 120_000);
afterAll(() => gateway?.close());

/** Calls a tool. */
async function convert(client: Client): Promise<void> {
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toContain('units__convert');
  const result = await client.callTool({ name: 'units__convert', arguments: { value: 1, from: 'km', to: 'm' } });
  expect(JSON.stringify(result.content)).toContain('1000');
}

/** The gateway must refuse the token within a second. */
async function refusedSoon(token: string): Promise<void> {
  const began = performance.now();
  await eventually(
    () => listTools(gateway.mcp, token),
    ({ status }) => status === 401,
  );
  expect(performance.now() - began).toBeLessThan(1_000);
}

const revoke = (token: string, { client }: MemoryProvider): Promise<Response> =>
  fetch(`${gateway.url}/oauth/revoke`, {
    method: 'POST',
    body: new URLSearchParams({ token, client_id: client!.client_id }),
  });

describe('a client of the TypeScript SDK', () => {
  test('signs in, calls a tool, refreshes, and is revoked within a second', async () => {
    const provider = new MemoryProvider();
    const client = await signIn(gateway.mcp, provider, ADA);
    await convert(client);
    const before = provider.saved!;
    await client.close();

    // An access token that the gateway does not accept makes the SDK refresh.
    provider.saved = { ...before, access_token: `${before.access_token.slice(0, -6)}AAAAAA` };
    const again = await connect(gateway.mcp, provider);
    await convert(again);
    const after = provider.saved!;
    expect(after.refresh_token).not.toBe(before.refresh_token);
    await again.close();

    expect((await listTools(gateway.mcp, after.access_token)).status).toBe(200);
    expect((await revoke(after.refresh_token!, provider)).status).toBe(200);
    await refusedSoon(after.access_token);
    await refusedSoon(before.access_token);
  });

  test('an access token is revoked without its refresh token, and only by its client', async () => {
    const provider = new MemoryProvider();
    await (await signIn(gateway.mcp, provider, ADA)).close();
    const { access_token: token } = provider.saved!;
    const other = new MemoryProvider();
    await (await signIn(gateway.mcp, other, ADA)).close();
    expect((await revoke(token, other)).status).toBe(200);
    expect((await listTools(gateway.mcp, token)).status).toBe(200);
    expect((await revoke(token, provider)).status).toBe(200);
    expect((await listTools(gateway.mcp, token)).status).toBe(401);
    const refreshed = await connect(gateway.mcp, provider);
    await convert(refreshed);
    await refreshed.close();
  });

  test('a removed user loses access within a second, and cannot refresh', async () => {
    await addUser(gateway, 'eve');
    const provider = new MemoryProvider();
    await (await signIn(gateway.mcp, provider, { name: 'eve', password: PASSWORD })).close();
    const { access_token: token, refresh_token: refresh } = provider.saved!;
    expect((await listTools(gateway.mcp, token)).status).toBe(200);
    expect(await parley(['users', 'remove', 'eve', '--config', gateway.file])).toMatchObject({ code: 0 });
    await refusedSoon(token);
    const refreshed = await fetch(`${gateway.url}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'refresh_token',
        refresh_token: refresh!,
        client_id: provider.client!.client_id,
      }),
    });
    expect(await refreshed.json()).toMatchObject({ error: 'invalid_grant' });
  });

  test('a new signing key leaves tokens of the old key valid', async () => {
    const provider = new MemoryProvider();
    await (await signIn(gateway.mcp, provider, ADA)).close();
    const { code, stdout } = await parley(['users', 'rotate-key', '--config', gateway.file, '--json']);
    expect(code).toBe(0);
    const { kid } = JSON.parse(stdout) as { kid: string };
    const keys = (): Promise<{ keys: { kid: string }[] }> =>
      fetch(`${gateway.url}/oauth/jwks`).then((reply) => reply.json() as Promise<{ keys: { kid: string }[] }>);
    await eventually(keys, (set) => set.keys[0]?.kid === kid);
    expect((await listTools(gateway.mcp, provider.saved!.access_token)).status).toBe(200);
    const later = new MemoryProvider();
    await (await signIn(gateway.mcp, later, ADA)).close();
    expect(Buffer.from(later.saved!.access_token.split('.')[0]!, 'base64url').toString()).toContain(kid);
  });
});
