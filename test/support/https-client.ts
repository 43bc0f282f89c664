/**
 * Asks for what standard input names, one after the other, and says what came. A process of its own, because Node reads
 * the authorities it trusts beside its own (`NODE_EXTRA_CA_CERTS`) when it starts.
 */

import { text } from 'node:stream/consumers';
import { sleep } from '../../src/core/timing.js';
import { HttpClient } from '../../src/outbound/http/index.js';
import { ask, Ear } from './raw-http.js';

export interface Asked {
  readonly url: string;
  /** Holds the reply up, from the beginning or at each part, for some milliseconds. */
  readonly hold?: 'connecting' | 'parts';
  /** The next is asked for within the end of this one. */
  readonly hurried?: boolean;
}

export interface Told {
  readonly outcome: unknown;
  readonly sent: boolean | undefined;
  readonly size: number;
}

const http = new HttpClient({ connectTimeout: 5_000 });
const told: Told[] = [];
for (const { url, hold, hurried } of JSON.parse(await text(process.stdin)) as Asked[]) {
  const ear = new Ear();
  const wait = (): void => {
    ear.exchange!.pause!();
    setTimeout(() => ear.exchange!.resume!(), 5);
  };
  if (hold === 'parts') ear.onData = wait;
  ask(http, url, {}, ear);
  if (hold === 'connecting') {
    // Long enough for TLS to be under way.
    ear.exchange!.pause!();
    setTimeout(() => ear.exchange!.resume!(), 200);
  }
  await ear.over;
  const whole = ear.body;
  const outcome = ear.failure ? ear.outcome : { status: ear.status, body: whole.length > 100 ? unitOf(whole) : whole };
  told.push({ outcome, sent: ear.failure?.sent, size: ear.size });
  // Leaves time to come for what the server says after the handshake, such as a ticket for the next one.
  if (!hurried) await sleep(20);
}
await http.close();
process.stdout.write(JSON.stringify(told));

/** Of a body that is one text again and again, that text; else where it breaks. */
function unitOf(body: string): string {
  const unit = body.slice(0, 7);
  for (let at = 0; at < body.length; at += 7) if (!unit.startsWith(body.slice(at, at + 7))) return `broken at ${at}`;
  return unit;
}
