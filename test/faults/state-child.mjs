/**
 * The storage of a replica in its own process, to be killed and frozen. Runs the compiled sources.
 *   write <writers>     writes tasks with a message each; prints `ack <id>` once both are durable
 *   append <writers>    appends to one stream per writer; prints `ack <stream> <n>` once event n is in it
 *   do                  runs the calls on stdin: `["outbox.claim", 10]` is answered with `did <result as JSON>`
 *   own <key> <ttlMs>   holds a lease and appends with its fence; prints `fence <n>`, `ack <n>`, then `fenced`
 * STATE is the JSON of the options for openState.
 */
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { isStateError, newId, openState, wallMs } from '../../dist/state/index.js';

const [mode, first, second] = process.argv.slice(2);
const state = await openState(JSON.parse(process.env.STATE));

// Written synchronously: an acknowledgement must not be lost with this process.
function say(line) {
  for (;;) {
    try {
      writeSync(1, `${line}\n`);
      return;
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
}

async function writer() {
  for (;;) {
    const id = newId();
    try {
      await state.tasks.create({ id, principal: 'p', value: 'x'.repeat(300) }, [{ lane: id, target: 'r', value: id }]);
      say(`ack ${id}`);
    } catch (error) {
      if (!isStateError(error) || !error.retryable) throw error;
      say(`failed ${error.outcome}`);
      await sleep(20);
    }
  }
}

async function appender(n) {
  const stream = `${process.pid}.${n}`;
  for (let i = 1; ; i++) {
    for (;;) {
      try {
        await state.bus.append(stream, String(i), { maxLen: 1_000_000, ttlMs: 600_000, mark: `${stream}.${i}` });
        break;
      } catch (error) {
        if (!isStateError(error) || !error.retryable) throw error;
        await sleep(20);
      }
    }
    say(`ack ${stream} ${i}`);
  }
}

async function owner(key, ttlMs) {
  const fence = await state.bus.lease(key, 'child', ttlMs);
  say(`fence ${fence}`);
  const renewing = setInterval(() => state.bus.renew(key, 'child', ttlMs).catch(() => {}), ttlMs / 4);
  for (let i = 1; ; i++) {
    try {
      await state.bus.append(key, `event ${i}`, { maxLen: 100_000, ttlMs: 60_000, fence: { key, fence } });
      say(`ack ${i}`);
      await sleep(20);
    } catch (error) {
      if (!isStateError(error, 'fenced')) throw error;
      say('fenced');
      break;
    }
  }
  clearInterval(renewing);
}

async function obey() {
  const parts = { ...state, newId, wallMs, date: () => Date.now() };
  for await (const line of createInterface(process.stdin)) {
    const [path, ...args] = JSON.parse(line);
    const names = path.split('.');
    const method = names.pop();
    const owner = names.reduce((part, name) => part[name], parts);
    const result = await owner[method](...args);
    say(`did ${JSON.stringify(result ?? null)}`);
  }
}

say('ready');
if (mode === 'write') await Promise.all(Array.from({ length: Number(first) }, writer));
if (mode === 'append') await Promise.all(Array.from({ length: Number(first) }, (_, n) => appender(n)));
if (mode === 'do') await obey();
if (mode === 'own') await owner(first, Number(second));
await state.close();
