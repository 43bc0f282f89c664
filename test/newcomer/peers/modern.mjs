// An HTTP server of 2026-07-28 that returns its input. Records every message it receives.
import { createServer } from 'node:http';
import { record } from './record.mjs';

const text = (value) => ({
  content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }],
});
const META = 'io.modelcontextprotocol/';

/** A tool that asks one question and returns the answer. */
const asks =
  (method, question) =>
  (_, { inputResponses, requestState }) =>
    inputResponses || requestState
      ? text({ answers: inputResponses ?? null, state: requestState })
      : { resultType: 'input_required', inputRequests: { one: { method, params: question } }, requestState: 'état/1' };

const choices = { type: 'array', items: { type: 'string', enum: ['a', 'b'] } };
const say = (content) => ({ maxTokens: 9, messages: [{ role: 'user', content }] });

const tools = {
  seen: (_, params, headers) => text({ headers, capabilities: params._meta[`${META}clientCapabilities`] }),
  number: () => ({ content: [], structuredContent: 42 }),
  rich: () => ({
    content: [
      { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
      { type: 'resource_link', uri: 'https://example.com/a', name: 'a' },
    ],
  }),
  ask: asks('elicitation/create', {
    mode: 'form',
    message: 'Go on?',
    requestedSchema: { type: 'object', properties: {} },
  }),
  ask_several: asks('elicitation/create', {
    mode: 'form',
    message: 'Which?',
    requestedSchema: { type: 'object', properties: { which: choices } },
  }),
  ask_url: asks('elicitation/create', { mode: 'url', message: 'Open', url: 'https://example.com/' }),
  sample: asks('sampling/createMessage', say({ type: 'text', text: 'Hello' })),
  sample_tools: asks('sampling/createMessage', { ...say({ type: 'text', text: 'Hello' }), tools: [] }),
  sample_audio: asks('sampling/createMessage', say({ type: 'audio', data: 'AAAA', mimeType: 'audio/wav' })),
};

const described = {
  number: { outputSchema: { type: 'number' } },
  seen: {
    outputSchema: { type: 'object' },
    title: 'Seen',
    icons: [{ src: 'data:,' }],
    annotations: { readOnlyHint: true },
  },
};
const cached = { ttlMs: 60_000, cacheScope: 'public' };
const capabilities = { tools: {}, resources: {}, extensions: { 'com.example/odd': {} } };

const methods = {
  'server/discover': () => ({ supportedVersions: ['2026-07-28'], capabilities, ...cached }),
  'tools/list': () => ({
    tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object' }, ...described[name] })),
    ...cached,
  }),
  'tools/call': (params, headers) => tools[params.name](params.arguments ?? {}, params, headers),
  'resources/list': () => ({ resources: [{ uri: 'shared://both', name: 'both' }], ...cached }),
  'resources/templates/list': () => ({ resourceTemplates: [], ...cached }),
  'resources/read': ({ uri }) => ({ contents: [{ uri, text: 'modern' }], ...cached }),
};

const server = createServer(async (req, res) => {
  const body = Buffer.concat(await req.toArray()).toString();
  record({ path: req.url, body });
  // A redirect that the gateway must not follow.
  if (req.url === '/moved') return res.writeHead(307, { location: '/mcp' }).end();
  if (req.method !== 'POST') return res.writeHead(405).end();
  const { id, method, params } = JSON.parse(body);
  if (id === undefined) return res.writeHead(202).end();
  const run = methods[method];
  const answer = run
    ? { result: { resultType: 'complete', ...run(params, req.headers) } }
    : { error: { code: -32601, message: 'Method not found' } };
  res.writeHead(run ? 200 : 404, { 'content-type': 'application/json' });
  res.end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
});
server.listen(0, '127.0.0.1', () => console.log(`listening http://127.0.0.1:${server.address().port}`));
process.stdin.on('end', () => process.exit(0)).resume();
