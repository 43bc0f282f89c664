/**
 * A caller far beyond its rate, in a process of its own: `flooding-caller.mjs URL TOKEN`. Floods between the IPC
 * messages `go` and `stop`, five requests every five milliseconds, and answers `stop` with the number of replies by
 * status.
 */
const [, , url, token] = process.argv;
const META = 'io.modelcontextprotocol';
const headers = {
  authorization: `Bearer ${token}`,
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': '2026-07-28',
  'mcp-method': 'tools/call',
  'mcp-name': 'open__add',
};
const params = {
  name: 'open__add',
  arguments: {},
  _meta: { [`${META}/protocolVersion`]: '2026-07-28', [`${META}/clientCapabilities`]: {} },
};
const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });

const seen = {};
let flooding = false;

async function one() {
  const reply = await fetch(`${url}/mcp`, { method: 'POST', headers, body });
  await reply.text();
  seen[reply.status] = (seen[reply.status] ?? 0) + 1;
}

async function flood() {
  while (flooding) {
    const pause = new Promise((resolve) => setTimeout(resolve, 5));
    await Promise.all([pause, ...Array.from({ length: 5 }, one)]);
  }
}

let running = Promise.resolve();
process.on('message', (message) => {
  flooding = message === 'go';
  if (flooding) running = flood();
  else void running.then(() => process.send(seen));
});
process.on('disconnect', () => process.exit(0));
