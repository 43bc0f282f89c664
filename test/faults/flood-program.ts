/** A stdio server that reports more progress than any client can read. Its argument is the file for its notes. */
export const FLOOD_PROGRAM = `
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const [notes] = process.argv.slice(2);
const say = (message) => process.stdout.write(JSON.stringify(message) + '\\n');
const answer = (id, text) => say({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } });
const tools = ['fine', 'endless', 'many'].map((name) => ({ name, inputSchema: { type: 'object' } }));
const stopped = new Set();
appendFileSync(notes, process.pid + '\\n');
async function flood(id, progressToken, count, size) {
  const message = 'x'.repeat(size);
  for (let progress = 1; progress <= count && !stopped.has(id); progress++) {
    if (!say({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, progress, message } }))
      await new Promise((resolve) => process.stdout.once('drain', resolve));
    if (progress % 500 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  if (stopped.has(id)) appendFileSync(notes, 'cancelled\\n');
  else answer(id, 'all of it');
}
const called = {
  fine: (id, args) => answer(id, args.text ?? 'fine'),
  endless: (id, args, token) => flood(id, token, Infinity, args.size ?? 20),
  many: (id, args, token) => flood(id, token, args.count, args.size ?? 20),
};
createInterface(process.stdin).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'notifications/cancelled') stopped.add(params.requestId);
  if (id === undefined || method === undefined) return;
  if (method === 'initialize') say({ jsonrpc: '2.0', id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'flood', version: '1' } } });
  else if (method === 'tools/list') say({ jsonrpc: '2.0', id, result: { tools } });
  else if (method === 'tools/call') void called[params.name](id, params.arguments ?? {}, params._meta?.progressToken);
  else say({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
});
`;
