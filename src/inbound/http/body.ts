import type { IncomingMessage } from 'node:http';
import { ProtocolError } from '../../protocol/errors.js';

/** Reads a request's body up to a limit. Beyond it the rest is not kept, and the connection does not outlive the answer. */
export function readBody(req: IncomingMessage, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const tooLarge = (): void => {
      req.removeAllListeners('data');
      // The peer is given a moment to read the answer before the rest of its body is cut off.
      req.resume();
      setTimeout(() => req.socket.destroy(), DRAIN).unref();
      reject(
        new ProtocolError('body_too_large', `The body exceeds ${limit} bytes`, { headers: { Connection: 'close' } }),
      );
    };
    if (Number(req.headers['content-length'] ?? 0) > limit) {
      tooLarge();
      return;
    }
    const chunks: Buffer[] = [];
    let size = 0;
    req.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > limit) tooLarge();
      else chunks.push(chunk);
    });
    req.on('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)));
    req.on('close', () => {
      if (!req.complete) reject(new ProtocolError('invalid_request', 'The body ended early'));
    });
    req.on('error', () => reject(new ProtocolError('invalid_request', 'The body could not be read')));
  });
}

const DRAIN = 1_000;
