/**
 * Behaves well until one of its tools is called. Arguments: the file for notes about its starts, then the start mode.
 */
export const ROGUE_PROGRAM = `
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const [starts, how] = process.argv.slice(2);
appendFileSync(starts, process.pid + '\\n');
if (how === 'dies') { process.stderr.write('cannot open /srv/secret/config.json\\n'); process.exit(3); }
if (how === 'stubborn') { process.on('SIGTERM', () => {}); process.stdin.on('end', () => {}); setInterval(() => {}, 1000); }
const say = (message) => process.stdout.write(JSON.stringify(message) + '\\n');
const tools = ['fine', 'die', 'kill', 'noise', 'chatter', 'long-line', 'half-line', 'wrong-id', 'wait'].map((name) => ({ name, inputSchema: { type: 'object' } }));
const answer = (id, text) => say({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } });
const waiting = new Map();
const called = {
  fine: (id, args) => answer(id, args.text ?? 'fine'),
  die: () => process.exit(7),
  wait: (id) => { waiting.set(id, setTimeout(() => answer(id, 'waited'), 60000)); appendFileSync(starts, 'waiting\\n'); },
  kill: () => process.kill(process.pid, 'SIGKILL'),
  noise: async (id) => {
    const line = 'n'.repeat(1023) + '\\n';
    for (let i = 0; i < 1600; i++) if (!process.stderr.write(line.repeat(64))) await new Promise((resolve) => process.stderr.once('drain', resolve));
    answer(id, 'noisy');
  },
  chatter: (id) => {
    process.stdout.write('Server started!\\n\\n   \\n{"half": \\n[1,2\\n<html>\\n"text"\\n42\\nnull\\n{}\\n\\u0000\\u0001\\n{"jsonrpc":"2.0"}\\n{"jsonrpc":"2.0","id":"x"}\\n');
    answer(id, 'chatty');
  },
  'long-line': (id) => { process.stdout.write('x'.repeat(6 * 1024 * 1024) + '\\n'); answer(id, 'after the long line'); },
  'half-line': () => { process.stdout.write('{"jsonrpc":"2.0","id":'); setTimeout(() => process.exit(0), 50); },
  'wrong-id': (id) => { answer('nobody', 'not yours'); answer(id + 1, 'not yours'); answer(id, 'yours'); answer(id, 'again'); },
};
createInterface(process.stdin).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'notifications/cancelled') { clearTimeout(waiting.get(params.requestId)); appendFileSync(starts, 'cancelled\\n'); }
  if (id === undefined || method === undefined) return;
  if (method === 'initialize') say({ jsonrpc: '2.0', id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'rogue', version: '1' } } });
  else if (method === 'tools/list') say({ jsonrpc: '2.0', id, result: { tools } });
  else if (method === 'tools/call') called[params.name](id, params.arguments ?? {});
  else say({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
});
`;
