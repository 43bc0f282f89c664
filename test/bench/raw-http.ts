/** Minimal HTTP on bare sockets, so that the server costs almost nothing. */
import { createServer, type Server, type Socket } from 'node:net';

/** Calls `handle` with each complete request. The handler writes the whole answer, including the head. */
export function rawHttpServer(handle: (socket: Socket, head: string, body: Buffer) => void): Server {
  return createServer({ noDelay: true }, (socket) => {
    let pending: Buffer | undefined;
    socket.on('error', () => socket.destroy());
    socket.on('data', (chunk: Buffer) => {
      let data = pending ? Buffer.concat([pending, chunk]) : chunk;
      pending = undefined;
      while (data.length > 0) {
        const end = data.indexOf('\r\n\r\n');
        const head = end < 0 ? '' : data.toString('latin1', 0, end);
        const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
        if (end < 0 || data.length < end + 4 + length) {
          pending = data;
          return;
        }
        const body = data.subarray(end + 4, end + 4 + length);
        data = data.subarray(end + 4 + length);
        handle(socket, head, body);
      }
    });
  });
}
