/**
 * Private PostgreSQL and Redis servers and forward proxies for tests: real programs on free loopback ports, in a
 * temporary folder, stopped by process id. A missing program is installed where this needs no confirmation (Debian, as
 * root). Otherwise the test fails with the command to run. It is never skipped.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, connect as netConnect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { alone } from './one-process-at-a-time.js';

const run = promisify(execFile);

export interface Service {
  readonly url: string;
  readonly port: number;
  /** The pid of the running server. Changes with `restart`. */
  readonly pid: number;
  readonly folder: string;
  /** The system user of the server, where it is not the current user. */
  readonly user: { uid: number; gid: number } | undefined;
  /** Sends SIGSTOP to the server and its processes. The kernel still accepts connections, but nothing answers. */
  freeze(): void;
  thaw(): void;
  /** Sends SIGKILL and waits for the end. The data stays. */
  kill(): Promise<void>;
  /** Starts again on the same port and data after `kill`. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export interface PostgresService extends Service {
  /** Creates an empty database on this server and returns its address. */
  createDatabase(): Promise<string>;
}

const PACKAGES = {
  postgres: 'postgresql',
  'redis-server': 'redis-server',
  tinyproxy: 'tinyproxy-bin',
  pgbouncer: 'pgbouncer',
  chromium: 'chromium',
  promtool: 'prometheus',
} as const;
type Program = keyof typeof PACKAGES;

/** The folders where packages install their servers. They may be missing on the PATH. */
function standardFolders(): string[] {
  const debian = existsSync('/usr/lib/postgresql') ? readdirSync('/usr/lib/postgresql') : [];
  debian.sort((a, b) => Number(b) - Number(a));
  const homebrew = existsSync('/opt/homebrew/opt') ? readdirSync('/opt/homebrew/opt') : [];
  return [
    ...debian.map((version) => `/usr/lib/postgresql/${version}/bin`),
    ...['/usr/local/bin', '/usr/bin', '/usr/sbin', '/usr/local/pgsql/bin', '/opt/homebrew/bin'],
    ...homebrew.filter((name) => name.startsWith('postgresql')).map((name) => `/opt/homebrew/opt/${name}/bin`),
  ];
}

/** Whether the program is missing and can be installed without confirmation. */
const installable = (program: Program): boolean =>
  find(program) === undefined && isRoot() && existsSync('/etc/debian_version');

/**
 * Vitest calls this before the first system test, because an installation may take longer than the time limit of a
 * test. A failed installation is not an error here: many tests need no server, and the others report what to install.
 */
export async function setup(): Promise<void> {
  for (const program of Object.keys(PACKAGES) as Program[]) {
    if (!installable(program)) continue;
    console.log(`Installing ${PACKAGES[program]}, which some tests need`);
    await need(program).catch((error: Error) => console.log(error.message));
  }
}

function find(program: Program): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(':').filter(Boolean), ...standardFolders()];
  return folders.map((folder) => join(folder, program)).find((path) => existsSync(path));
}

function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/** Returns the path of the program. Installs it if it is missing. */
async function need(program: Program): Promise<string> {
  const found = find(program);
  if (found) return found;
  const pkg = PACKAGES[program];
  const command = `apt-get install -y --no-install-recommends ${pkg}`;
  if (!installable(program)) {
    const debian = `on Debian and Ubuntu run: sudo ${command}`;
    const places = 'The tests look on the PATH and where packages put it';
    throw new Error(`${program} is not installed, and these tests need the real one. ${places}; ${debian}`);
  }
  // Test files run at the same time, and apt refuses to run twice.
  const lock = join(tmpdir(), 'parley-tests-apt.lock');
  await alone(
    lock,
    2 * APT_LIMIT_MS,
    () => find(program) !== undefined,
    () => install(program, pkg, command),
  );
  const installed = find(program);
  if (!installed) throw new Error(`${program} is still missing after: ${command}`);
  return installed;
}

const APT_LIMIT_MS = 300_000;

async function install(program: Program, pkg: string, command: string): Promise<void> {
  // RUNLEVEL=1 keeps the package from starting its own system-wide server.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  const apt = (...args: string[]) =>
    run('apt-get', ['-o', 'DPkg::Lock::Timeout=120', ...args], { env, timeout: APT_LIMIT_MS });
  try {
    // On a new machine the list of packages may be missing or old.
    await apt('install', '-y', '--no-install-recommends', pkg).catch(async () => {
      await apt('update', '-qq');
      await apt('install', '-y', '--no-install-recommends', pkg);
    });
  } catch (error) {
    const said = (error as { stderr?: string }).stderr || (error as Error).message;
    throw new Error(`${program} is not installed, and "${command}" failed:\n${said}`, { cause: error });
  }
}

/** The path of Prometheus' own checker of metrics and rules. */
export const promtool = (): Promise<string> => need('promtool');

/** The path of Debian's Chromium, for tests of pages in a real browser. */
export const chromium = (): Promise<string> => need('chromium');

/**
 * A free port below the range from which the system takes ports by itself. A port of that range could be taken by any
 * connection before the server listens on it.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 15_000 + Math.floor(Math.random() * 17_000);
    if (await canListen(port)) return port;
  }
}

const canListen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });

async function answers(port: number, ask: Buffer | string, expected: RegExp): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = netConnect(port, '127.0.0.1');
    const done = (ok: boolean): void => {
      socket.destroy();
      resolve(ok);
    };
    socket.setTimeout(500, () => done(false));
    socket.once('connect', () => socket.write(ask));
    socket.once('data', (data) => done(expected.test(data.toString('latin1'))));
    socket.once('error', () => done(false));
    socket.once('close', () => done(false));
  });
}

function processTree(pid: number): number[] {
  const table = execFileSync('ps', ['-e', '-o', 'pid=,ppid='], { encoding: 'utf8' });
  const children = new Map<number, number[]>();
  for (const line of table.trim().split('\n')) {
    const [child, parent] = line.trim().split(/\s+/).map(Number) as [number, number];
    children.set(parent, [...(children.get(parent) ?? []), child]);
  }
  const walk = (of: number): number[] => [of, ...(children.get(of) ?? []).flatMap(walk)];
  return walk(pid);
}

interface Plan {
  folder: string;
  port: number;
  url: string;
  command: string;
  args: string[];
  user?: { uid: number; gid: number } | undefined;
  ready(): Promise<boolean>;
  /** The signal for a quick and clean end. */
  end: NodeJS.Signals;
}

async function serve(plan: Plan): Promise<Service> {
  let child: ChildProcess;
  let log = '';
  const start = async (): Promise<void> => {
    child = spawn(plan.command, plan.args, {
      ...plan.user,
      cwd: plan.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const keep = (chunk: Buffer): void => {
      log = `${log}${chunk}`.slice(-4_000);
    };
    child.stdout?.on('data', keep);
    child.stderr?.on('data', keep);
    // A database that was killed may need long to recover on a busy machine.
    for (let tries = 0; tries < 1_200; tries++) {
      if (child.exitCode !== null) throw new Error(`${plan.command} ended with ${child.exitCode}:\n${log}`);
      if (await plan.ready()) return;
      await sleep(50);
    }
    child.kill('SIGKILL');
    throw new Error(`${plan.command} did not become ready:\n${log}`);
  };
  const gone = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    await new Promise((resolve) => child.once('exit', resolve));
  };
  const signal = (name: NodeJS.Signals): void => {
    const reached = new Set<number>();
    // A process that was started while the others got the signal is found in the next look.
    for (;;) {
      const left = processTree(child.pid!).filter((pid) => !reached.has(pid));
      if (left.length === 0) return;
      for (const pid of left) {
        reached.add(pid);
        try {
          process.kill(pid, name);
        } catch {
          // The process has ended already.
        }
      }
    }
  };
  // An aborted test run must not leave a server running.
  const last = (): void => {
    try {
      signal('SIGKILL');
      rmSync(plan.folder, { recursive: true, force: true });
    } catch {
      // No process is left.
    }
  };
  process.once('exit', last);
  await start();
  return {
    url: plan.url,
    port: plan.port,
    folder: plan.folder,
    user: plan.user,
    get pid() {
      return child.pid!;
    },
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    async kill() {
      signal('SIGKILL');
      await gone();
    },
    restart: start,
    async stop() {
      process.removeListener('exit', last);
      if (child.exitCode === null && child.signalCode === null) {
        signal('SIGCONT');
        child.kill(plan.end);
        await Promise.race([gone(), sleep(5_000, undefined, { ref: false })]);
        if (child.exitCode === null && child.signalCode === null) {
          signal('SIGKILL');
          await gone();
        }
      }
      rmSync(plan.folder, { recursive: true, force: true });
    },
  };
}

/** PostgreSQL refuses to run as root. It runs as the user `postgres`, or as `nobody` if there is no such user. */
function postgresUser(): { uid: number; gid: number } | undefined {
  if (!isRoot()) return undefined;
  for (const name of ['postgres', 'nobody']) {
    const id = (flag: string) => Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: 'pipe' }));
    try {
      return { uid: id('-u'), gid: id('-g') };
    } catch {
      // There is no such user.
    }
  }
  throw new Error('PostgreSQL refuses to run as root, and this machine has no user "postgres" or "nobody" to run it');
}

function startupMessage(database: string): Buffer {
  const body = Buffer.from(`\0\x03\0\0user\0parley\0database\0${database}\0\0`, 'latin1');
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length + 4);
  return Buffer.concat([head, body]);
}

export interface PostgresSettings {
  /** Whether to wait for the disk, as in production. True by default. */
  fsync?: boolean;
  settings?: Record<string, string>;
}

export async function startPostgres({ fsync = true, settings = {} }: PostgresSettings = {}): Promise<PostgresService> {
  const command = await need('postgres');
  // The `initdb` of the same version is in the folder of the server, after links are resolved.
  const initdb = join(realpathSync(command), '..', 'initdb');
  const folder = mkdtempSync(join(tmpdir(), 'parley-pg-'));
  const user = postgresUser();
  if (user) chownSync(folder, user.uid, user.gid);
  chmodSync(folder, 0o700);
  const data = join(folder, 'data');
  const init = ['-D', data, '-U', 'parley', '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync'];
  execFileSync(initdb, init, { ...user, cwd: folder, stdio: 'pipe' });
  const port = await freePort();
  const all = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    fsync: fsync ? 'on' : 'off',
    max_connections: '100',
    shared_buffers: '32MB',
    autovacuum: 'off',
    ...settings,
  };
  const args = ['-D', data, ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
  const base = `postgres://parley@127.0.0.1:${port}`;
  // Any authentication answer ("R") means that the server accepts connections.
  const ready = (): Promise<boolean> => answers(port, startupMessage('postgres'), /^R/);
  const url = `${base}/postgres`;
  const service = await serve({ folder, port, url, command, args, user, ready, end: 'SIGINT' });
  let databases = 0;
  return Object.assign(service, {
    async createDatabase() {
      const name = `parley_${++databases}`;
      const { default: pg } = await import('pg');
      const client = new pg.Client({ connectionString: `${base}/postgres`, connectionTimeoutMillis: 5_000 });
      await client.connect();
      await client.query(`CREATE DATABASE ${name}`);
      await client.end();
      return `${base}/${name}`;
    },
  });
}

export interface RedisSettings {
  /** Whether to use the append-only file, as the cluster documentation recommends. */
  aof?: boolean;
  /** By default a free port. */
  port?: number;
  settings?: Record<string, string>;
}

export async function startRedis({ aof = true, settings = {}, ...given }: RedisSettings = {}): Promise<Service> {
  const command = await need('redis-server');
  const folder = mkdtempSync(join(tmpdir(), 'parley-redis-'));
  const port = given.port ?? (await freePort());
  const all = {
    bind: '127.0.0.1',
    port: String(port),
    dir: folder,
    save: '""',
    appendonly: aof ? 'yes' : 'no',
    appendfsync: 'everysec',
    daemonize: 'no',
    ...settings,
  };
  const file = join(folder, 'redis.conf');
  const lines = Object.entries(all).map(([name, value]) => `${name} ${value}`);
  writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
  const ready = (): Promise<boolean> => answers(port, 'PING\r\n', /^\+PONG/);
  const url = `redis://127.0.0.1:${port}`;
  return serve({ folder, port, url, command, args: [file], ready, end: 'SIGTERM' });
}

export interface RedisCluster {
  /** `redis+cluster://` and the address of its first node. */
  readonly url: string;
  readonly nodes: readonly Service[];
  stop(): Promise<void>;
}

const SLOTS = 16_384;

/** Starts a Redis Cluster of masters without replicas. Resolves when every node reports that the cluster is ready. */
export async function startRedisCluster(masters = 3): Promise<RedisCluster> {
  const { Redis } = await import('ioredis');
  const nodes: Service[] = [];
  // The port on which a node speaks with the other nodes. Its default could be in use by another program.
  const clusterPorts: string[] = [];
  for (let i = 0; i < masters; i++) {
    const port = await freePort();
    clusterPorts.push(String(await freePort()));
    const settings = { 'cluster-enabled': 'yes', 'cluster-config-file': 'nodes.conf', 'cluster-node-timeout': '5000' };
    nodes.push(await startRedis({ aof: false, port, settings: { ...settings, 'cluster-port': clusterPorts[i]! } }));
  }
  const clients = nodes.map(({ port }) => new Redis(port, '127.0.0.1'));
  try {
    await Promise.all(
      clients.map((client, i) => {
        const [from, to] = [Math.ceil((i * SLOTS) / masters), Math.ceil(((i + 1) * SLOTS) / masters) - 1];
        return client.call('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to));
      }),
    );
    await Promise.all(
      clients
        .slice(1)
        .map((client) => client.call('CLUSTER', 'MEET', '127.0.0.1', String(nodes[0]!.port), clusterPorts[0]!)),
    );
    const whole = async (client: (typeof clients)[number]): Promise<boolean> => {
      const info = String(await client.call('CLUSTER', 'INFO'));
      return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${masters}`);
    };
    for (let tries = 0; !(await Promise.all(clients.map(whole))).every(Boolean); tries++) {
      if (tries === 600) throw new Error('the nodes of the Redis Cluster did not find each other');
      await sleep(50);
    }
  } finally {
    for (const client of clients) client.disconnect();
  }
  const stop = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => node.stop()));
  };
  return { url: `redis+cluster://127.0.0.1:${nodes[0]!.port}`, nodes, stop };
}

export interface PgBouncer extends Service {
  /** The address of a database through the pooler. */
  through(database: string): string;
}

/** Starts PgBouncer in front of a PostgreSQL server, in transaction mode. */
export async function startPgBouncer(
  { port: server }: PostgresService,
  settings: Record<string, string> = {},
): Promise<PgBouncer> {
  const command = await need('pgbouncer');
  const folder = mkdtempSync(join(tmpdir(), 'parley-bouncer-'));
  const user = postgresUser();
  const port = await freePort();
  const file = join(folder, 'pgbouncer.ini');
  const all = {
    listen_addr: '127.0.0.1',
    listen_port: String(port),
    unix_socket_dir: '',
    auth_type: 'any',
    pool_mode: 'transaction',
    max_client_conn: '500',
    default_pool_size: '10',
    ...settings,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`);
  const databases = `[databases]\n* = host=127.0.0.1 port=${server} user=parley\n`;
  writeFileSync(file, `${databases}[pgbouncer]\n${lines.join('\n')}\n`, { mode: 0o600 });
  for (const path of user ? [folder, file] : []) chownSync(path, user!.uid, user!.gid);
  const ready = (): Promise<boolean> => answers(port, startupMessage('pgbouncer'), /^[RE]/);
  const url = `postgres://parley@127.0.0.1:${port}`;
  const service = await serve({ folder, port, url, command, args: [file], user, ready, end: 'SIGINT' });
  return Object.assign(service, { through: (database: string) => database.replace(/:\d+\//, `:${port}/`) });
}

export interface ForwardProxy extends Service {
  /** The log so far. */
  log(): string;
}

/** Starts a forward proxy. With `auth` it requires these credentials. */
export async function startTinyproxy(auth?: { user: string; password: string }): Promise<ForwardProxy> {
  const command = await need('tinyproxy');
  const folder = mkdtempSync(join(tmpdir(), 'parley-proxy-'));
  const port = await freePort();
  const file = join(folder, 'tinyproxy.conf');
  const log = join(folder, 'tinyproxy.log');
  const lines = [
    `Port ${port}`,
    'Listen 127.0.0.1',
    'Allow 127.0.0.1',
    'Timeout 600',
    'MaxClients 100',
    `LogFile "${log}"`,
    'LogLevel Connect',
    ...(auth ? [`BasicAuth ${auth.user} ${auth.password}`] : []),
  ];
  writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
  const ready = (): Promise<boolean> => answers(port, 'GET / HTTP/1.0\r\n\r\n', /^HTTP/);
  const url = `http://127.0.0.1:${port}`;
  const service = await serve({ folder, port, url, command, args: ['-d', '-c', file], ready, end: 'SIGTERM' });
  return Object.assign(service, { log: () => readFileSync(log, 'utf8') });
}
