// An MCP server of revision 2026-07-28: the time, anywhere. Every request stands alone; there is no session.
//   node examples/clock.mjs [port]     over HTTP, on a free port unless one is given
//   node examples/clock.mjs --stdio    over stdin and stdout
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const REVISION = '2026-07-28';
const INFO = { name: 'example-clock', title: 'Clock', version: '1.0.0' };
const META = 'io.modelcontextprotocol/';

const zone = { type: 'string', description: 'An IANA time zone, such as Europe/Rome' };
const readOnly = { readOnlyHint: true, openWorldHint: false };

const tools = {
  now: {
    title: 'Current time',
    description: 'Tells the date and time in a time zone.',
    inputSchema: { type: 'object', properties: { timeZone: zone } },
    outputSchema: { type: 'object', properties: { timeZone: zone, time: { type: 'string' } }, required: ['time'] },
    annotations: readOnly,
    run: ({ timeZone = 'UTC' }) => ({ timeZone, time: inZone(new Date(), timeZone) }),
  },
  convert: {
    title: 'Convert a time',
    description: 'Shows what a moment is in other time zones.',
    inputSchema: {
      type: 'object',
      properties: {
        time: { type: 'string', description: 'ISO 8601 with its offset, such as 2026-07-28T09:00:00Z' },
        timeZones: { type: 'array', items: zone, minItems: 1 },
      },
      required: ['time', 'timeZones'],
    },
    annotations: readOnly,
    run: ({ time, timeZones }) => {
      if (!Array.isArray(timeZones)) throw new Error('"timeZones" must be a list, such as ["Europe/Rome"]');
      return Object.fromEntries(timeZones.map((timeZone) => [timeZone, inZone(new Date(time), timeZone)]));
    },
  },
};

function inZone(date, timeZone) {
  return new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' }).format(date);
}

const fresh = { ttlMs: 3_600_000, cacheScope: 'public' };

const methods = {
  'server/discover': () => ({ supportedVersions: [REVISION], capabilities: { tools: {}, resources: {} }, ...fresh }),
  'tools/list': () => ({
    tools: Object.entries(tools).map(([name, { run, ...tool }]) => ({ name, ...tool })),
    ...fresh,
  }),
  'tools/call': ({ name, arguments: args = {} }) => {
    const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
    if (!tool) throw new RpcError(-32602, `Unknown tool: ${name}`);
    try {
      const answer = tool.run(args);
      return { content: [{ type: 'text', text: JSON.stringify(answer) }], structuredContent: answer };
    } catch (error) {
      // What went wrong inside a tool is for the model to read.
      return { content: [{ type: 'text', text: error.message }], isError: true };
    }
  },
  'resources/list': () => ({ resources: [{ uri: 'clock://zones', name: 'zones', mimeType: 'text/plain' }], ...fresh }),
  'resources/templates/list': () => ({ resourceTemplates: [], ...fresh }),
  'resources/read': ({ uri }) => {
    if (uri !== 'clock://zones') throw new RpcError(-32602, 'Resource not found', { uri });
    const text = Intl.supportedValuesOf('timeZone').join('\n');
    return { contents: [{ uri, mimeType: 'text/plain', text }], ...fresh };
  },
};

class RpcError extends Error {
  constructor(code, message, data, status = 200) {
    super(message);
    Object.assign(this, { code, data, status });
  }
}

/** Over HTTP the headers repeat the version and the method; stdio has none. */
function answer({ method, params }, headers) {
  const meta = params?._meta ?? {};
  const version = meta[`${META}protocolVersion`];
  const refuse = (code, message, data) => new RpcError(code, message, data, 400);
  if (typeof version !== 'string' || typeof meta[`${META}clientCapabilities`] !== 'object')
    throw refuse(-32602, `params._meta lacks ${META}protocolVersion or ${META}clientCapabilities`);
  if (headers && (headers['mcp-protocol-version'] !== version || headers['mcp-method'] !== method))
    throw refuse(-32020, 'MCP-Protocol-Version or Mcp-Method differs from the body');
  if (version !== REVISION) throw refuse(-32022, 'Unsupported version', { supported: [REVISION], requested: version });
  if (!Object.hasOwn(methods, method)) throw new RpcError(-32601, `Method not found: ${method}`, undefined, 404);
  return { resultType: 'complete', ...methods[method](params), _meta: { [`${META}serverInfo`]: INFO } };
}

/** The response to one request; undefined for a notification, which has none. */
function respond(text, headers) {
  let id;
  try {
    const request = JSON.parse(text);
    id = request.id;
    if (id === undefined) return { status: 202 };
    return { status: 200, body: { jsonrpc: '2.0', id, result: answer(request, headers) } };
  } catch (error) {
    const { code = error instanceof SyntaxError ? -32700 : -32603, message, data, status = 400 } = error;
    return { status, body: { jsonrpc: '2.0', id, error: { code, message, data } } };
  }
}

const server = createServer(async (req, res) => {
  const reply = (status, body) =>
    res.writeHead(status, { 'content-type': 'application/json' }).end(body && JSON.stringify(body));
  // A page in a browser must not reach a server on this machine.
  if (req.headers.origin) return reply(403);
  if (req.method !== 'POST') return res.writeHead(405, { allow: 'POST' }).end();
  const { status, body } = respond(Buffer.concat(await req.toArray()).toString(), req.headers);
  reply(status, body);
});

if (process.argv[2] === '--stdio') {
  for await (const line of createInterface({ input: process.stdin })) {
    const { body } = respond(line);
    if (body) process.stdout.write(`${JSON.stringify(body)}\n`);
  }
} else {
  server.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => {
    console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}/mcp` }));
  });
}
