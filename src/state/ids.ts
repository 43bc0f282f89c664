import { randomFillSync } from 'node:crypto';
import { wallMs } from './clock.js';

// Random bytes are fetched in bulk, because one fetch costs more than making the rest of an id.
const pool = Buffer.alloc(8_192);
let used = pool.length;

function random(length: number): Buffer {
  if (used + length > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += length;
  return pool.subarray(used - length, used);
}

let lastMs = 0;
let counter = 0;

/** A UUIDv7 in lower case: sorts by creation time on every engine, and strictly within one process. */
export function newId(): string {
  const now = wallMs();
  if (now > lastMs) {
    lastMs = now;
    counter = random(2).readUInt16BE(0) & 0x07ff;
  } else if (++counter > 0x0fff) {
    lastMs += 1;
    counter = 0;
  }
  const ms = lastMs.toString(16).padStart(12, '0');
  const sub = counter.toString(16).padStart(3, '0');
  const bytes = random(8);
  bytes[0] = (bytes[0]! & 0x3f) | 0x80;
  const tail = bytes.toString('hex');
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7${sub}-${tail.slice(0, 4)}-${tail.slice(4)}`;
}
