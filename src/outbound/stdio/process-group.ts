import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

const windows = process.platform === 'win32';

/** The process group of a child. Windows has no groups; there it is the child's process tree. */
export class ProcessGroup {
  readonly #id: number;
  #members: number[];

  constructor(leader: number) {
    this.#id = leader;
    this.#members = [leader];
  }

  signal(signal: 'SIGTERM' | 'SIGKILL'): void {
    if (windows) {
      const args = ['/PID', String(this.#id), '/T', ...(signal === 'SIGKILL' ? ['/F'] : [])];
      spawn('taskkill', args, { stdio: 'ignore', windowsHide: true }).on('error', () => {});
      return;
    }
    try {
      process.kill(-this.#id, signal);
    } catch {
      // ESRCH: no process is left. EPERM: the processes changed their user, and the gateway may not end them.
    }
  }

  /**
   * Whether any process of the group runs. To the kernel a zombie still belongs to its group, and it stays in a
   * container whose first process does not reap orphans. On Linux this method ignores zombies.
   */
  alive(): boolean {
    try {
      process.kill(windows ? this.#id : -this.#id, 0);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
    }
    if (process.platform !== 'linux') return true;
    // Reads all of /proc only when all known members have ended.
    if (!this.#members.some((pid) => livesIn(this.#id, pid))) this.#members = this.#list();
    return this.#members.length > 0;
  }

  #list(): number[] {
    try {
      return readdirSync('/proc')
        .map(Number)
        .filter((pid) => pid > 0 && livesIn(this.#id, pid));
    } catch {
      return [this.#id];
    }
  }
}

function livesIn(group: number, pid: number): boolean {
  try {
    // Format: `pid (name) state ppid pgrp …`. The name may contain any character, brackets included.
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const [state, , pgrp] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(pgrp) === group && state !== 'Z' && state !== 'X';
  } catch {
    return false;
  }
}
