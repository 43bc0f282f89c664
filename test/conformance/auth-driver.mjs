/**
 * Plays a client and its user in the suite's `auth/*` scenarios: the client calls a tool through the gateway, the user
 * signs in at the suite's authorization server in a browser, by the link that the gateway gives the client.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { LoginBrowser } from '../support/login-browser.mjs';

const MODERN = '2026-07-28';
const SIGN_IN = 'sign_in';

/** The settings `auth.oauth` of the gateway for a scenario. */
/**
 * @param {string} scenario
 * @param {{ client_id?: string, client_secret?: string }} context
 */
export function loginSettings(scenario, context) {
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
