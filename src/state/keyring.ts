import { randomBytes } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { chmod, link, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { sleep } from '../core/timing.js';
import { monotonicMs } from './clock.js';
import { StateError } from './errors.js';

export const KEY_BYTES = 32;

/** How long a replaced key still opens sealed values: longer than any sealed value is valid. */
export const KEEP_REPLACED_MS = 30 * 24 * 3_600_000;

/** A configured key. The first key of a list seals. Every key opens sealed values until its `until`. */
export interface KeySetting {
  id: string;
  /** 32 bytes, base64 or base64url. */
  key: string;
  /** Epoch milliseconds after which the key no longer opens. */
  until?: number;
}

export interface Key {
  readonly id: string;
  readonly key: Buffer;
}

export interface Keyring {
  /** The key to seal with. */
  readonly active: Key;
  /** The key to open with; undefined if it is unknown or expired. */
  find(id: string): Buffer | undefined;
}

interface Held {
  id: string;
  key: Buffer;
  until: number | undefined;
}

function parse(settings: readonly KeySetting[], source: string): Held[] {
  if (settings.length === 0) throw new StateError('config', `${source}: the key list is empty`);
  const held = settings.map(({ id, key, until }, i): Held => {
    if (typeof id !== 'string' || !/^[\w-]{1,32}$/.test(id)) {
      throw new StateError('config', `${source}: key ${i + 1} needs an id of 1 to 32 letters, digits, _ or -`);
    }
    const bytes = typeof key === 'string' ? Buffer.from(key, 'base64') : Buffer.alloc(0);
    if (bytes.length !== KEY_BYTES) {
      throw new StateError(
        'config',
        `${source}: key ${id} has ${bytes.length} bytes and needs ${KEY_BYTES}: make one with openssl rand -base64 32`,
      );
    }
    return { id, key: bytes, until };
  });
  if (new Set(held.map(({ id }) => id)).size < held.length)
    throw new StateError('config', `${source}: two keys have the same id`);
  if (held[0]!.until !== undefined)
    throw new StateError('config', `${source}: the first key seals and must not have until`);
  return held;
}

function find(held: readonly Held[], id: string): Buffer | undefined {
  const known = held.find((key) => key.id === id);
  return known && (known.until === undefined || known.until > Date.now()) ? known.key : undefined;
}

/** Keys from the configuration: the same list on every replica. */
export class ConfiguredKeyring implements Keyring {
  readonly active: Key;
  readonly #held: readonly Held[];

  constructor(keys: readonly KeySetting[]) {
    this.#held = parse(keys, 'state.keys');
    this.active = this.#held[0]!;
  }

  find(id: string): Buffer | undefined {
    return find(this.#held, id);
  }
}

/** Minimum time between two checks of the file for a rotation by another process. */
const CHECK_MS = 1_000;
/** A lock of this age was left by a process that died. */
const LOCK_STALE_MS = 10_000;

/** Keys in a file of mode 0600, generated at the first start and shared by the processes of one data folder. */
export class FileKeyring implements Keyring {
  readonly #path: string;
  #held: readonly Held[];
  #stamp: string;
  #looked = monotonicMs();

  private constructor(path: string, held: readonly Held[], stamp: string) {
    this.#path = path;
    this.#held = held;
    this.#stamp = stamp;
  }

  static async open(path: string): Promise<FileKeyring> {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const exists = await stat(path).then(
      () => true,
      () => false,
    );
    if (!exists) await createOnce(path, [newKey()]);
    await chmod(path, 0o600);
    const stamp = stampOf(path);
    const keys = JSON.parse(await readFile(path, 'utf8').catch(unreadable(path))) as { keys?: KeySetting[] };
    return new FileKeyring(path, parse(keys.keys ?? [], path), stamp);
  }

  get active(): Key {
    this.#look();
    return this.#held[0]!;
  }

  find(id: string): Buffer | undefined {
    this.#look();
    return find(this.#held, id);
  }

  /** Makes a new key the sealing key. Earlier keys open for another `keepMs` and are then removed. */
  async rotate(keepMs = KEEP_REPLACED_MS): Promise<string> {
    const lock = `${this.#path}.lock`;
    await takeLock(lock);
    try {
      const now = Date.now();
      const { keys } = JSON.parse(await readFile(this.#path, 'utf8')) as { keys: KeySetting[] };
      const fresh = newKey();
      const kept = keys.map((key) => ({ ...key, until: key.until ?? now + keepMs })).filter(({ until }) => until > now);
      const next = [fresh, ...kept];
      const temporary = await write(this.#path, next);
      await rename(temporary, this.#path);
      await syncFolder(this.#path);
      this.#held = parse(next, this.#path);
      this.#stamp = stampOf(this.#path);
      return fresh.id;
    } finally {
      await rm(lock, { force: true });
    }
  }

  /** Reads the file again after a change. If the file cannot be read, the known keys stay in use. */
  #look(): void {
    const now = monotonicMs();
    if (now - this.#looked < CHECK_MS) return;
    this.#looked = now;
    try {
      const stamp = stampOf(this.#path);
      if (stamp === this.#stamp) return;
      const { keys } = JSON.parse(readFileSync(this.#path, 'utf8')) as { keys: KeySetting[] };
      this.#held = parse(keys, this.#path);
      this.#stamp = stamp;
    } catch {
      // The next check tries again.
    }
  }
}

function newKey(): KeySetting {
  return { id: randomBytes(6).toString('hex'), key: randomBytes(KEY_BYTES).toString('base64') };
}

function stampOf(path: string): string {
  const { ino, mtimeMs, size } = statSync(path);
  return `${ino} ${mtimeMs} ${size}`;
}

async function write(path: string, keys: readonly KeySetting[]): Promise<string> {
  const temporary = join(dirname(path), `.keyring-${process.pid}-${randomBytes(6).toString('hex')}`);
  const file = await open(temporary, 'wx', 0o600);
  try {
    await file.writeFile(`${JSON.stringify({ keys }, null, 2)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  return temporary;
}

/** `link` fails if the file exists, so that all processes that start at the same time use the first file. */
async function createOnce(path: string, keys: readonly KeySetting[]): Promise<void> {
  const temporary = await write(path, keys);
  try {
    await link(temporary, path);
    await syncFolder(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(temporary, { force: true });
  }
}

/** Syncs the folder. Otherwise the file could be missing after a power failure, and no sealed value could be opened. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(dirname(path), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function takeLock(lock: string): Promise<void> {
  for (const deadline = monotonicMs() + LOCK_STALE_MS * 2; monotonicMs() < deadline; await sleep(50)) {
    try {
      await (await open(lock, 'wx', 0o600)).close();
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const age = await stat(lock).then(
      ({ mtimeMs }) => Date.now() - mtimeMs,
      () => 0,
    );
    if (age > LOCK_STALE_MS) await rm(lock, { force: true });
  }
  throw new StateError('unavailable', `${lock} is held by another process`);
}

function unreadable(path: string): (cause: Error) => never {
  return (cause) => {
    throw new StateError('unavailable', `${path} cannot be read: ${cause.message}`, { cause });
  };
}
