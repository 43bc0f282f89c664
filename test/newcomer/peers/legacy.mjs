// A stdio server of 2025-11-25 that misbehaves in ways that SDKs prevent. Records every message it receives.
import { createInterface } from 'node:readline';
import { record } from './record.mjs';

const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });
const form = { message: 'Go on?', requestedSchema: { type: 'object', properties: { yes: { type: 'boolean' } } } };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let kept = 'nothing';
const tools = {
  ask: async () => text(JSON.stringify(await ask('elicitation/create', form))),
  ask_later: async () => {
    setTimeout(() => ask('elicitation/create', form), 50);
    return text('later');
  },
  sample: async () => {
    const messages = [{ role: 'user', content: { type: 'text', text: 'Hello' } }];
    return text(
      JSON.stringify(await ask('sampling/createMessage', { messages, maxTokens: 9, includeContext: 'allServers' })),
    );
  },
  remember: async ({ what }) => {
    kept = what;
    return text(kept);
  },
  recall: async () => text(kept),
  log: async ({ ms }) => {
    await sleep(ms);
    send({ method: 'notifications/message', params: { level: 'warning', data: 'a line' } });
    await sleep(ms);
    return text('logged');
  },
  report: async ({ times }, { progressToken }) => {
    for (let progress = 1; progress <= times; progress++)
      send({ method: 'notifications/progress', params: { progressToken, progress } });
    return text('reported');
  },
  slow: async () => {
    await sleep(60_000);
    return text('slow');
  },
  crash: async () => process.exit(3),
  environment: async () => text(Object.keys(process.env).sort().join(' ')),
  ['a_tool_with_a_name_that_is_much_longer_than_model_providers_let_it_be']: async () => text('long'),
};

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {}, resources: {}, logging: {}, completions: {}, experimental: { 'example/odd': {} } },
    serverInfo: { name: 'legacy-peer', version: '1' },
  }),
  ping: () => ({}),
  'logging/setLevel': () => ({}),
  'tools/list': () => ({ tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object' } })) }),
  'tools/call': ({ name, arguments: args, _meta }) => tools[name](args ?? {}, _meta ?? {}),
  'resources/list': () => ({ resources: [{ uri: 'shared://both', name: 'both' }] }),
  'resources/templates/list': () => ({ resourceTemplates: [{ uriTemplate: 'legacy://{name}', name: 'any' }] }),
  'resources/read': ({ uri }) => ({ contents: [{ uri, text: 'legacy' }] }),
  'completion/complete': async () => {
    await ask('elicitation/create', form);
    return { completion: { values: ['done'] } };
  },
};

let asked = 0;
const waiting = new Map();
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

/** Sends a request and resolves with the answer, a result or an error. */
function ask(method, params) {
  const id = `ask-${++asked}`;
  send({ id, method, params });
  return new Promise((resolve) => waiting.set(id, resolve));
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  record(message);
  const { id, method, params = {}, result, error } = message;
  if (method === undefined) waiting.get(id)?.(result ?? { error });
  else if (id !== undefined) {
    const run = methods[method];
    if (!run) send({ id, error: { code: -32601, message: 'Method not found' } });
    else void Promise.resolve(run(params)).then((value) => send({ id, result: value }));
  }
}
