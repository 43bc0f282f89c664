/**
 * The agents of the A2A bench: `node` is the reference, a hand-written node:http server that parses each request and
 * stringifies each answer; `raw` answers on bare sockets, so that the process in front of it is the limit.
 *
 *   a2a-upstream.ts node|raw
 */
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo, Server, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { cardOf, EVENTS, eventOf, type Kind, resultOf } from './a2a-wire.js';
import { rawHttpServer } from './raw-http.js';

interface Request {
  readonly id: number | string;
  readonly method: string;
  readonly params: { readonly message: { readonly parts: readonly { readonly text: string }[] } };
}

const CARD = '/.well-known/agent-card.json';
const words = ({ params }: Request): string[] => params.message.parts[0]!.text.split(' ');

function answer(request: Request): object {
  const { id, method } = request;
  if (method !== 'SendMessage')
    return { jsonrpc: '2.0', id, error: { code: -32601, message: `Method not found: ${method}` } };
  const [kind, mark] = words(request);
  return { jsonrpc: '2.0', id, result: resultOf(kind as Kind, mark!) };
}

/** Writes the events of a stream: as fast as the peer reads, or one every `pace` milliseconds. */
async function stream(
  request: Request,
  write: (text: string) => boolean,
  drained: () => Promise<unknown>,
): Promise<void> {
  const [, pace, mark] = words(request);
  for (let number = 0; number < EVENTS; number++) {
    if (Number(pace) > 0) await sleep(Number(pace));
    const text = `data: ${JSON.stringify({ jsonrpc: '2.0', id: request.id, result: eventOf(mark!, number) })}\n\n`;
    if (!write(text)) await drained();
  }
}

let url = '';

function nodeServer(): Server {
  return createHttpServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const reply = (status: number, body: object): void => {
        const text = JSON.stringify(body);
        res
          .writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
          .end(text);
      };
      if (req.method === 'GET') {
        reply(req.url === CARD ? 200 : 404, req.url === CARD ? cardOf(url) : {});
        return;
      }
      const request = JSON.parse((chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)).toString()) as Request;
      if (request.method !== 'SendStreamingMessage') {
        reply(200, answer(request));
        return;
      }
      res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
      const drained = (): Promise<unknown> => new Promise((resolve) => res.once('drain', resolve));
      void stream(request, (text) => res.write(text), drained).then(() => res.end());
    });
  });
}

function rawServer(): Server {
  const reply = (socket: Socket, status: string, text: string): void => {
    const head = `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n`;
    socket.write(head + text);
  };
  return rawHttpServer((socket, head, body) => {
    if (head.startsWith(`GET ${CARD} `)) reply(socket, '200 OK', JSON.stringify(cardOf(url)));
    else if (!head.startsWith('POST')) reply(socket, '404 Not Found', '{}');
    else reply(socket, '200 OK', JSON.stringify(answer(JSON.parse(body.toString()) as Request)));
  });
}

const server = process.argv[2] === 'raw' ? rawServer() : nodeServer();
server.listen(0, '127.0.0.1', () => {
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  process.send!(url);
});
process.on('disconnect', () => process.exit(0));
