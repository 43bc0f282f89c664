/** Every error of an agent names the agent, its URL, the cause and what to do. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunningGateway, startGateway } from '../support/gateway.js';
import { freePort } from '../support/services.js';

type Answer = (req: IncomingMessage, res: ServerResponse) => unknown;

const CARD = /\/\.well-known\/agent(-card)?\.json$/;
const CHECK = 'check its URL, which must be the URL of the agent or of its card';

/** Serves a card, and answers messages with the given function. */
const withCard =
  (answer: Answer): Answer =>
  (req, res) => {
    if (!CARD.test(req.url ?? '')) return answer(req, res);
    const card = {
      ...{ name: 'failing', description: 'fails', version: '1', skills: [] },
      ...{ defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'], capabilities: {} },
      supportedInterfaces: [
        { url: `http://${req.headers.host}/agent/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      ],
    };
    return res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(card));
  };
const status =
  (code: number, body = '', headers: Record<string, string> = {}): Answer =>
  (_, res) =>
    res.writeHead(code, { 'content-type': 'text/plain', ...headers }).end(body);

const FAILURES: Readonly<Record<string, { readonly answer?: Answer; readonly message: string }>> = {
  absent: { message: 'cannot be reached: connection refused; check that it runs, and the host and port of its URL' },
  'not-found': { answer: status(404), message: `has no agent card (HTTP 404); ${CHECK}` },
  page: { answer: status(200, '<html>Welcome</html>'), message: `has no agent card (no card); ${CHECK}` },
  unauthorized: {
    answer: withCard(status(401)),
    message: 'did not accept the gateway\'s credentials (HTTP 401); check "headers" of the agent in the configuration',
  },
  moved: {
    answer: withCard(status(301, '', { location: 'https://user:secret@agent.example/new?token=secret' })),
    message: 'answered with a redirect to https://agent.example/new (HTTP 301), which is not followed; correct its URL',
  },
  misplaced: {
    answer: withCard(status(404)),
    message: 'has no A2A endpoint there (HTTP 404); check its URL and the URLs in its card',
  },
  silent: { answer: withCard(() => {}), message: 'did not answer within 2 s; it may be busy or stuck' },
  'no-json': {
    answer: withCard(status(200, 'hello')),
    message: 'sent an answer that is not a JSON-RPC response',
  },
};

const servers: ReturnType<typeof createServer>[] = [];
const urls = new Map<string, string>();
let gateway: RunningGateway;

beforeAll(async () => {
  for (const [name, { answer }] of Object.entries(FAILURES)) {
    let port: number;
    if (answer) {
      const server = createServer((req, res) => {
        req.resume();
        answer(req, res);
      }).listen(0, '127.0.0.1');
      servers.push(server);
      await once(server, 'listening');
      port = (server.address() as AddressInfo).port;
    } else port = await freePort();
    urls.set(name, `http://127.0.0.1:${port}/agent`);
  }
  const agents = Object.fromEntries(
    [...urls].map(([name, url]) => [name, { url, timeouts: { connect: '5s', call: '2s', callMax: '4s' } }]),
  );
  gateway = await startGateway({ agents, log: { level: 'warn' } }, { settled: false });
});
afterAll(async () => {
  await gateway?.close();
  for (const server of servers) {
    server.close();
    server.closeAllConnections();
  }
});

describe.each(Object.entries(FAILURES))('%s', (name, { message }) => {
  test('the answer to a message names the cause', async () => {
    const reply = await fetch(`${gateway.url}/a2a/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: 1, method: 'SendMessage' },
        params: { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] } },
      }),
    });
    const { error } = (await reply.json()) as { error?: { message: string } };
    expect(error?.message).toBe(`Agent "${name}" at ${urls.get(name)} ${message}`);
  });
});

test('no message contains a secret', () => {
  expect(gateway.log()).not.toContain('secret');
});
