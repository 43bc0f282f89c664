/**
 * Plays a client and its user in the suite's `auth/*` scenarios. The client calls a tool through the gateway, and the
 * user signs in at the suite's authorization server in a browser, by the link that the gateway gives the client.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { LoginBrowser } from '../support/login-browser.mjs';

const MODERN = '2026-07-28';
const SIGN_IN = 'sign_in';

/**
 * The settings `auth` of the gateway for a scenario.
 *
 * @param {string} scenario
 * @param {{ client_id?: string, client_secret?: string, private_key_pem?: string, signing_algorithm?: string }} context
 * @param {string} server
 */
export async function authSettings(scenario, context, server) {
  if (!scenario.startsWith('auth/client-credentials')) return { oauth: loginSettings(scenario, context) };
  const { client_secret: clientSecret, private_key_pem: privateKey, signing_algorithm: algorithm } = context;
  const proof = clientSecret ? { clientSecret } : { privateKey, algorithm };
  return { clientCredentials: { issuer: await issuerOf(server), clientId: context.client_id, ...proof } };
}

/**
 * The issuer, which the operator of a gateway with client credentials configures.
 *
 * @param {string} server
 */
async function issuerOf(server) {
  const { origin, pathname } = new URL(server);
  const metadata = await fetch(`${origin}/.well-known/oauth-protected-resource${pathname}`);
  const { authorization_servers: issuers } = /** @type {{ authorization_servers: string[] }} */ (await metadata.json());
  return issuers[0];
}

/**
 * The settings `auth.oauth`.
 *
 * @param {string} scenario
 * @param {{ client_id?: string, client_secret?: string }} context
 */
function loginSettings(scenario, context) {
  if (scenario === 'auth/basic-cimd')
    return { registration: 'metadata', clientId: 'https://conformance-test.local/client-metadata.json' };
  if (context.client_id !== undefined)
    return { clientId: context.client_id, ...(context.client_secret && { clientSecret: context.client_secret }) };
  return { registration: 'auto' };
}

/** @param {{ url: string, specVersion: string }} run */
export async function driveAuth({ url, specVersion }) {
  const browser = new LoginBrowser();
  let failed = '';
  const capabilities = { elicitation: { url: {} } };
  const client = new Client(
    { name: 'conformance-driver', version: '1.0.0' },
    specVersion === MODERN
      ? { capabilities, versionNegotiation: { mode: 'auto' } }
      : { capabilities, supportedProtocolVersions: [specVersion] },
  );
  client.setRequestHandler('elicitation/create', async ({ params }) => {
    const { url: link } = /** @type {{ url: string }} */ (params);
    const page = await browser.signIn(link);
    if (page.status !== 200) failed = `${page.status} ${page.text.replace(/<style>.*<\/style>/s, '')}`;
    return { action: failed === '' ? 'accept' : 'decline' };
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  try {
    for (let round = 0; round < 2; round++) {
      const { tools } = await client.listTools();
      const [tool] = tools.filter(({ name }) => name !== SIGN_IN);
      const called = await client.callTool({ name: tool?.name ?? SIGN_IN, arguments: {} });
      if (called.isError) throw new Error(`The call failed: ${JSON.stringify(called.content)}`);
      if (tool) round++;
    }
  } catch (error) {
    throw failed === '' ? error : new Error(failed, { cause: error });
  } finally {
    await client.close();
  }
}
