/**
 * Plays the client in the suite's client scenarios, with the genuine SDK client: connects to one URL and does there
 * what the scenario waits for. The URL is the gateway's, or the suite's own when the driver itself is being checked.
 */

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

/**
 * @typedef {object} Run
 * @property {string} url where to connect
 * @property {string} specVersion the revision to speak
 * @property {boolean} throughGateway whether the URL is the gateway's
 * @property {{ toolCalls?: { name: string, arguments: Record<string, unknown> }[] }} context what the suite passed on
 */

const MODERN = '2026-07-28';

/**
 * @param {Run} run
 * @param {import('@modelcontextprotocol/client').ClientCapabilities} [capabilities]
 */
async function connect({ url, specVersion, throughGateway }, capabilities = {}) {
  const client = new Client(
    { name: 'conformance-driver', version: '1.0.0' },
    specVersion === MODERN
      ? { capabilities, versionNegotiation: { mode: 'auto' } }
      : // The suite's servers sometimes answer with an older revision. The gateway must answer with the requested one.
        { capabilities, supportedProtocolVersions: throughGateway ? [specVersion] : [specVersion, '2025-03-26'] },
  );
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const negotiated = client.getNegotiatedProtocolVersion();
  if (throughGateway && negotiated !== specVersion) throw new Error(`Negotiated ${negotiated}, not ${specVersion}`);
  return client;
}

/**
 * Lists the tools and calls one of them.
 * @param {Client} client
 * @param {string} name
 * @param {Record<string, unknown>} [args]
 */
async function callListedTool(client, name, args = {}) {
  const { tools } = await client.listTools();
  const tool = tools.find((candidate) => candidate.name === name);
  if (!tool) throw new Error(`No tool ${name} among ${tools.map((candidate) => candidate.name).join(', ')}`);
  return client.callTool({ name, arguments: args });
}

/**
 * A value for every required argument of a tool.
 * @param {import('@modelcontextprotocol/client').Tool} tool
 */
function someArguments({ inputSchema }) {
  /** @type {Record<string, unknown>} */
  const samples = { string: 'us-west1', object: {}, array: [], null: null };
  return Object.fromEntries(
    Object.entries(inputSchema.properties ?? {}).map(([name, schema]) => [
      name,
      samples[String(/** @type {{ type?: string }} */ (schema).type)],
    ]),
  );
}

/** @type {Record<string, (run: Run) => Promise<Client>>} */
const SCENARIOS = {
  initialize: async (run) => {
    const client = await connect(run);
    await client.listTools();
    return client;
  },

  tools_call: async (run) => {
    const client = await connect(run);
    await callListedTool(client, 'add_numbers', { a: 5, b: 3 });
    return client;
  },

  'elicitation-sep1034-client-defaults': async (run) => {
    const client = await connectWithElicitation(run, { form: { applyDefaults: true } }, {});
    await callListedTool(client, 'test_client_elicitation_defaults');
    return client;
  },

  'sse-retry': async (run) => {
    const client = await connect(run);
    await callListedTool(client, 'test_reconnection');
    return client;
  },

  'request-metadata': async (run) => {
    const client = await connect(run, { roots: { listChanged: true }, sampling: {}, elicitation: {} });
    await client.listTools();
    return client;
  },

  'sep-2322-client-request-state': async (run) => {
    const client = await connectWithElicitation(run, {}, { confirmed: true });
    await callListedTool(client, 'test_mrtr_echo_state');
    await callListedTool(client, 'test_mrtr_no_state');
    await callListedTool(client, 'test_mrtr_unrelated');
    // The answer has no `resultType`. A client must treat it as complete and not repeat the request. The SDK rejects
    // it.
    await callListedTool(client, 'test_mrtr_no_result_type').catch(() => {});
    return client;
  },

  'http-standard-headers': async (run) => {
    const client = await connect(run);
    for (const { name } of (await client.listTools()).tools) await client.callTool({ name, arguments: {} });
    for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
    for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name });
    return client;
  },

  'http-custom-headers': async (run) => {
    const client = await connect(run);
    for (const { name, arguments: args } of run.context.toolCalls ?? []) await callListedTool(client, name, args);
    return client;
  },

  'http-invalid-tool-headers': async (run) => {
    // A modern SDK client drops the invalid tools itself. A legacy SDK client does not know the headers, so its list
    // shows whether the gateway has dropped the tools.
    const client = await connect(run.throughGateway ? { ...run, specVersion: '2025-11-25' } : run);
    for (const tool of (await client.listTools()).tools) {
      await client.callTool({ name: tool.name, arguments: someArguments(tool) });
    }
    return client;
  },

  'json-schema-ref-no-deref': async (run) => {
    const client = await connect(run);
    const { tools } = await client.listTools();
    if (tools.length === 0) throw new Error('No tools were listed');
    return client;
  },

  'json-schema-2020-12-preservation': async (run) => {
    const client = await connect(run);
    const { tools } = await client.listTools();
    const schema = tools.find((tool) => tool.name === 'json_schema_2020_12_tool')?.inputSchema;
    if (!schema) throw new Error('No tool json_schema_2020_12_tool');
    await client.callTool({ name: 'json_schema_echo', arguments: { schema } });
    return client;
  },
};

/**
 * A client that accepts every form with the same content.
 * @param {Run} run
 * @param {import('@modelcontextprotocol/client').ClientCapabilities['elicitation']} elicitation
 * @param {Record<string, string | number | boolean>} content
 */
async function connectWithElicitation(run, elicitation, content) {
  const client = await connect(run, { elicitation });
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content }));
  return client;
}

/**
 * @param {string} scenario
 * @param {Run} run
 */
export async function drive(scenario, run) {
  const play = SCENARIOS[scenario];
  if (!play) throw new Error(`The driver has no steps for scenario ${scenario}`);
  const client = await play(run);
  await client.close();
}
