/**
 * Reads requests from standard input, sends them in order and prints the replies. Runs as a separate process, because
 * Node reads additional trusted authorities (`NODE_EXTRA_CA_CERTS`) only at its start.
 */

import { text } from 'node:stream/consumers';
import { sleep } from '../../src/core/timing.js';
import { HttpClient } from '../../src/outbound/http/index.js';
import { ask, Ear } from './raw-http-servers.js';

export interface Asked {
  readonly url: string;
  /** Pauses the reply for some milliseconds, from the start or after each part. */
  readonly hold?: 'connecting' | 'parts';
  /** Starts the next request in the `end` callback of this one. */
  readonly hurried?: boolean;
  /** Runs the garbage collector before the request. */
  readonly collected?: boolean;
}

export interface Told {
  readonly outcome: unknown;
  readonly sent: boolean | undefined;
  readonly size: number;
}

const http = new HttpClient({ connectTimeout: 5_000 });
const told: Told[] = [];
for (const { url, hold, hurried, collected } of JSON.parse(await text(process.stdin)) as Asked[]) {
  if (collected) globalThis.gc!();
  const ear = new Ear();
  const wait = (): void => {
    ear.exchange!.pause!();
    setTimeout(() => ear.exchange!.resume!(), 5);
  };
  if (hold === 'parts') ear.onData = wait;
  ask(http, url, {}, ear);
  if (hold === 'connecting') {
    // Long enough for the TLS handshake to start.
    ear.exchange!.pause!();
    setTimeout(() => ear.exchange!.resume!(), 200);
  }
  await ear.over;
  const whole = ear.body;
  const outcome = ear.failure ? ear.outcome : { status: ear.status, body: whole.length > 100 ? unitOf(whole) : whole };
  told.push({ outcome, sent: ear.failure?.sent, size: ear.size });
  // Time for messages after the TLS handshake, such as a session ticket.
  if (!hurried) await sleep(20);
}
await http.close();
process.stdout.write(JSON.stringify(told));

/** The repeated text of a body, or the position where the repetition ends. */
function unitOf(body: string): string {
  const unit = body.slice(0, 7);
  for (let at = 0; at < body.length; at += 7) if (!unit.startsWith(body.slice(at, at + 7))) return `broken at ${at}`;
  return unit;
}
