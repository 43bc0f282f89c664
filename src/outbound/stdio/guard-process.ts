import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import type { Log } from '../../telemetry/log.js';
import { TAG } from './child-environment.js';
import { ProcessGroup } from './process-group.js';

/**
 * No child outlives the gateway, even after `kill -9` of the gateway. The end of stdin is not enough: some children
 * ignore it, and their descendants do not see it. One small guard process per gateway therefore holds the other end of
 * a pipe. It gets the pid of every child. When the pipe closes, for any reason, it ends their process groups and then
 * itself.
 *
 * On Linux the guard also ends processes that left their group: a child and its descendants carry a tag in their
 * environment, which /proc shows. That covers servers that start a browser or a daemon in another session, and the time
 * between the start of a child and its registration. A process that must survive has to remove the variable from its
 * environment.
 *
 * The guard is code in a string, run by `node -e`, because it must work from compiled and from uncompiled sources.
 */
const GUARD = String.raw`
'use strict';
const fs = require('node:fs');
const { spawnSync } = require('node:child_process');
const [tagName, token] = process.argv.slice(1);
const windows = process.platform === 'win32';
process.title = 'parley-guard';
// The guard must outlive the gateway, also when a signal is sent to both.
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
// Ignores zombies: they still belong to their group, but need no signal.
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
// An entry of environ ends with NUL, so a tag cannot match a longer one.
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

// Ends the processes that a child left outside its group, after the child ended and while the gateway runs.
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
  // 0 means the guard's own group, and 1 means all processes.
  if (!Number.isInteger(pid) || pid < 2) return;
  if (text[0] === '+') groups.add(pid);
  if (text[0] === '-') { groups.delete(pid); strayTags.add(tag); sweep(); }
}

// The gateway ended. Its children have just seen the end of stdin, so they get a short time before the signals.
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
      // A second time, for processes that were being forked.
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

/** Informs the guard process about children, and keeps a guard running while there are children. */
export class Guard {
  readonly #token = randomBytes(12).toString('hex');
  readonly #watched = new Map<number, Watched>();
  #process: ChildProcess | undefined;
  #count = 0;
  #log: Log | undefined;

  /** The pid of the guard process, if it runs. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** Starts the guard if it does not run. Returns the tag for the next child's environment. */
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

  /** The child's group is empty. The guard looks for processes that the child left outside the group. */
  forget(pid: number): void {
    const watched = this.#watched.get(pid);
    if (watched === undefined) return;
    this.#watched.delete(pid);
    if (this.#watched.size === 0) process.off('exit', this.#onExit);
    this.#write(`-${pid} ${watched.tag}\n`);
  }

  /** The gateway exits without having stopped its children. The guard ends them, if it runs. */
  readonly #onExit = (): void => {
    const signal = this.#process === undefined ? 'SIGKILL' : 'SIGTERM';
    for (const { pid } of this.#watched.values()) new ProcessGroup(pid).signal(signal);
  };

  #ensure(): void {
    if (this.#process !== undefined) return;
    // A separate session, so that Ctrl-C and signals to the gateway's group do not reach the guard. A separate
    // environment, so that a gateway that is itself a tagged child does not pass its tag or NODE_OPTIONS to the guard.
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
      // Children work without a guard too. The next start of a child tries to start the guard again.
      this.#log?.warn({ error }, 'could not start the guard of the child processes; children run without it');
      return;
    }
    guard.on('error', (error) => this.#lost(guard, error.message));
    guard.on('exit', (code, signal) => this.#lost(guard, `it ended with ${signal ?? code}`));
    if (guard.pid === undefined) return;
    guard.stdin?.on('error', () => {});
    // Neither the guard process nor its pipe may keep the gateway running.
    guard.unref();
    (guard.stdin as unknown as { unref?(): void } | null)?.unref?.();
    this.#process = guard;
    for (const { pid, tag } of this.#watched.values()) this.#write(`+${pid} ${tag}\n`);
  }

  #lost(guard: ChildProcess, why: string): void {
    if (this.#process !== guard && this.#process !== undefined) return;
    this.#process = undefined;
    this.#log?.warn({ why }, 'the guard of the child processes ended; starting it again');
    if (this.#watched.size === 0) return;
    setTimeout(() => {
      if (this.#watched.size > 0) this.#ensure();
    }, RESTART_MS).unref();
  }

  /** A small write to a pipe is synchronous, so the guard gets the line even if the gateway ends right after it. */
  #write(text: string): void {
    this.#process?.stdin?.write(text);
  }
}

/** One per gateway process. */
export const guard = new Guard();
