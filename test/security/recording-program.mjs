// A stdio server that records its environment and every line that it receives.
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const record = (text) => appendFileSync(process.env.RECORD, `${text}\n`);
record(JSON.stringify(process.env));
record(process.argv.join(' '));

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'recording', version: '1' },
  }),
  ping: () => ({}),
  'tools/list': () => ({ tools: [{ name: 'keep', inputSchema: { type: 'object' } }] }),
  'tools/call': () => ({ content: [{ type: 'text', text: 'kept' }] }),
};

for await (const line of createInterface({ input: process.stdin })) {
  record(line);
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) continue;
  const run = methods[method];
  const answer = run ? { result: run(params ?? {}) } : { error: { code: -32601, message: 'Method not found' } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...answer })}\n`);
}
