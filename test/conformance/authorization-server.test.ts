/**
 * The official suite's scenarios for authorization servers, against the built-in one, at every revision (two in
 * `npm test`). The test is the
 * browser of the user: it opens the URL that the suite prints, signs in and allows the client.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { register } from '../oauth/code-grant.js';
import { allow, PageReader } from '../oauth/page-reader.js';
import { addUser, type OAuthGateway, PASSWORD, startOAuthGateway } from '../oauth/stand.js';
import { freePort } from '../support/services.js';
import { CHOSEN_VERSIONS, describeFailures, locateSuite, runAuthorizationSuite } from './run.js';

let gateway: OAuthGateway;

beforeAll(async () => {
  await locateSuite();
  gateway = await startOAuthGateway();
  await addUser(gateway);
}, 660_000);
afterAll(() => gateway?.close());

describe('the built-in authorization server', () => {
  it.each(CHOSEN_VERSIONS)(
    'publishes its metadata and grants a code at %s',
    { timeout: 300_000 },
    async (specVersion) => {
      const port = await freePort();
      const registered = await register(gateway, { redirect_uris: [`http://127.0.0.1:${port}/callback`] });
      const { client_id: client } = (await registered.json()) as { client_id: string };
      let opened: Promise<unknown> | undefined;
      const result = await runAuthorizationSuite({
        url: gateway.url,
        specVersion,
        args: ['--client-id', client, '--resource', gateway.mcp, '--port', String(port)],
        onOutput: (output) => {
          const url = /http:\S+\/oauth\/authorize\?\S+(?=\s)/.exec(output)?.[0];
          if (url === undefined || opened) return;
          const user = { name: 'ada', password: PASSWORD };
          opened = allow(new PageReader(gateway.url), url, user).then((back) => fetch(back));
        },
      });
      await opened;
      expect(describeFailures(result), result.output).toBe('');
      expect(result.scenarios.map(({ name, passed }) => [name, passed > 0]).sort(), result.output).toEqual([
        ['authorization-code-grant', true],
        ['authorization-server-metadata-endpoint', true],
      ]);
    },
  );
});
