import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import type { Log } from '../../telemetry/log.js';
import { TAG } from './environment.js';
import { Group } from './group.js';

/**
 * No child outlives the gateway, not even one that was killed with -9. A closed stdin is not enough: children ignore it,
 * and what they started never saw it. So one small guard process per gateway holds the other end of a pipe. It is told of
 * every child, and when the pipe closes, for whatever reason, it ends their process groups and then itself.
 *
 * On Linux it also ends what left its group: a child and its descendants carry a tag in their environment, which
 * /proc shows. That covers servers that start a browser or a daemon in a session of its own, and the instant between
 * the start of a child and its registration. A process meant to survive has to drop the variable from its environment.
 *
 * The guard is code in a string, run by `node -e`, because it has to work from compiled and from uncompiled sources alike.
 */
const GUARD = String.raw`
'use strict';
const fs = require('node:fs');
const { spawnSync } = require('node:child_process');
const [tagName, token] = process.argv.slice(1);
const windows = process.platform === 'win32';
process.title = 'parley-guard';
// It must live until the gateway is gone, also when a signal is sent to everybody.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']) process.on(signal, () => {});

const groups = new Set();
let strayTags = new Set();

function kill(pid, signal) {
  try { process.kill(pid, signal); return true; } catch (error) { return error.code === 'EPERM'; }
}
function signalGroup(pid, signal) {
  if (!windows) return kill(-pid, signal);
  if (signal === 'SIGKILL') spawnSync('taskkill', ['/PID', String(pid), '/T', '/F'], { stdio: 'ignore', windowsHide: true });
  return kill(pid, 0);
}
// A zombie still belongs to its group, but has nothing left to end.
function empty() {
  for (const group of groups) if (!kill(windows ? group : -group, 0)) groups.delete(group);
  if (process.platform !== 'linux') return groups.size === 0;
  return !processes().some((pid) => {
    try {
      const stat = fs.readFileSync('/proc/' + pid + '/stat', 'latin1');
      const [state, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return state !== 'Z' && groups.has(Number(group));
    } catch { return false; }
  });
}
function processes() {
  try { return fs.readdirSync('/proc').map(Number).filter((pid) => pid > 0 && pid !== process.pid); } catch { return []; }
}
// An entry of environ ends with NUL, so a full tag cannot match a longer one.
function tagged(entries) {
  const found = [];
  if (process.platform !== 'linux') return found;
  for (const pid of processes()) {
    let environ;
    try { environ = '\0' + fs.readFileSync('/proc/' + pid + '/environ', 'latin1'); } catch { continue; }
    if (entries.some((entry) => environ.includes('\0' + tagName + '=' + entry))) found.push(pid);
  }
  return found;
}

// Children that ended while the gateway lives: whatever they left outside their group.
let sweeping = false;
function sweep() {
  if (sweeping || strayTags.size === 0) return;
  sweeping = true;
  setTimeout(() => {
    const entries = [...strayTags].map((tag) => tag + '\0');
    strayTags = new Set();
    const strays = tagged(entries);
    for (const pid of strays) kill(pid, 'SIGTERM');
    const done = () => { sweeping = false; sweep(); };
    if (strays.length === 0) return done();
    setTimeout(() => { for (const pid of tagged(entries)) kill(pid, 'SIGKILL'); done(); }, 2000);
  }, 100);
}

function line(text) {
  const [id, tag] = text.slice(1).split(' ');
  const pid = Number(id);
  // 0 and 1 would mean the guard's own group, and everybody.
  if (!Number.isInteger(pid) || pid < 2) return;
  if (text[0] === '+') groups.add(pid);
  if (text[0] === '-') { groups.delete(pid); strayTags.add(tag); sweep(); }
}

// The gateway is gone. Its children have just seen the end of stdin, so they get a moment before they are told to go.
let ending = false;
function end() {
  if (ending) return;
  ending = true;
  const all = () => tagged([token + '.']);
  const signal = (name) => { for (const g of groups) if (!signalGroup(g, name)) groups.delete(g); for (const p of all()) kill(p, name); };
  setTimeout(() => {
    signal('SIGTERM');
    let left = 15;
    const wait = () => {
      if (empty() && all().length === 0) process.exit(0);
      if (left-- > 0) return setTimeout(wait, 100);
      signal('SIGKILL');
      // Again, for what was being forked meanwhile.
      setTimeout(() => { signal('SIGKILL'); process.exit(0); }, 200);
    };
    setTimeout(wait, 100);
  }, 300);
}

let rest = '';
process.stdin.setEncoding('latin1');
process.stdin.on('data', (chunk) => {
  const lines = (rest + chunk).split('\n');
  rest = lines.pop();
  for (const text of lines) line(text);
});
process.stdin.on('end', end);
process.stdin.on('close', end);
process.stdin.on('error', end);
`;

const RESTART_MS = 1000;

interface Watched {
  pid: number;
  tag: string;
}

/** Tells the guard process what to watch, and keeps one running as long as there is something to watch. */
export class Guard {
  readonly #token = randomBytes(12).toString('hex');
  readonly #watched = new Map<number, Watched>();
  #process: ChildProcess | undefined;
  #count = 0;
  #log: Log | undefined;

  /** The guard process, once there is one. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** Starts the guard if need be, and gives the tag for the next child's environment. */
  prepare(log?: Log): string {
    if (log !== undefined) this.#log = log;
    this.#ensure();
    return `${this.#token}.${++this.#count}`;
  }

  watch(pid: number, tag: string): void {
    if (this.#watched.size === 0) process.on('exit', this.#onExit);
    this.#watched.set(pid, { pid, tag });
    this.#write(`+${pid} ${tag}\n`);
  }

  /** The child's group is empty; what it left elsewhere is the guard's to find. */
  forget(pid: number): void {
    const watched = this.#watched.get(pid);
    if (watched === undefined) return;
    this.#watched.delete(pid);
    if (this.#watched.size === 0) process.off('exit', this.#onExit);
    this.#write(`-${pid} ${watched.tag}\n`);
  }

  /** An orderly exit of the gateway that did not stop its children: the guard does the rest, if it is there. */
  readonly #onExit = (): void => {
    const signal = this.#process === undefined ? 'SIGKILL' : 'SIGTERM';
    for (const { pid } of this.#watched.values()) new Group(pid).signal(signal);
  };

  #ensure(): void {
    if (this.#process !== undefined) return;
    // Its own session, so that Ctrl-C and a signal to the gateway's group pass it by; its own environment, so that a
    // gateway that is itself somebody's child does not hand its tag, or NODE_OPTIONS, to its guard.
    const systemRoot = process.env['SYSTEMROOT'];
    let guard: ChildProcess;
    try {
      guard = spawn(process.execPath, ['--max-old-space-size=16', '-e', GUARD, '--', TAG, this.#token], {
        cwd: process.platform === 'win32' ? undefined : '/',
        detached: true,
        env: systemRoot === undefined ? {} : { SYSTEMROOT: systemRoot },
        stdio: ['pipe', 'ignore', 'ignore'],
        windowsHide: true,
      });
    } catch (error) {
      // The children are more use without a guard than not at all; the next start tries again.
      this.#log?.warn({ error }, 'the guard of the child processes could not be started');
      return;
    }
    guard.on('error', (error) => this.#lost(guard, error.message));
    guard.on('exit', (code, signal) => this.#lost(guard, `it ended with ${signal ?? code}`));
    if (guard.pid === undefined) return;
    guard.stdin?.on('error', () => {});
    // Neither the process nor the pipe may keep the gateway running.
    guard.unref();
    (guard.stdin as unknown as { unref?(): void } | null)?.unref?.();
    this.#process = guard;
    for (const { pid, tag } of this.#watched.values()) this.#write(`+${pid} ${tag}\n`);
  }

  #lost(guard: ChildProcess, why: string): void {
    if (this.#process !== guard && this.#process !== undefined) return;
    this.#process = undefined;
    this.#log?.warn({ why }, 'the guard of the child processes is gone and is started again');
    if (this.#watched.size === 0) return;
    setTimeout(() => {
      if (this.#watched.size > 0) this.#ensure();
    }, RESTART_MS).unref();
  }

  /** Small writes to a pipe leave the process at once, so a line is on its way even if the next instruction is the last. */
  #write(text: string): void {
    this.#process?.stdin?.write(text);
  }
}

/** One per gateway process. */
export const guard = new Guard();
