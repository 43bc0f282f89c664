/** The registry as adapters see it: versions, masked secrets, problems as data, and the limits of registrations. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Runtime } from '../../src/app/runtime.js';
import { configFrom } from '../../src/config/load.js';
import type { UpstreamRegistry, UpstreamSettings } from '../../src/core/upstream-registry.js';
import { MASK } from '../../src/identity/mask-secrets.js';
import { ProtocolError } from '../../src/protocol/errors.js';
import { Envelope } from '../../src/state/envelope-encryption.js';
import { SILENT } from '../../src/telemetry/log.js';
import { eventually } from '../support/eventually.js';

const BY = { caller: 'root' };
const PLACE = { url: 'http://127.0.0.1:9/mcp' };
const SECRET = { ...PLACE, headers: { 'X-Key': 'canary-secret-1' } };

let folder: string;
const open: Runtime[] = [];
let runtime: Runtime;
let registry: UpstreamRegistry;

async function start(more: object = {}): Promise<Runtime> {
  const { config } = configFrom(
    { data: join(folder, 'data'), egress: { allowPrivate: true }, timeouts: { drain: '1s' }, ...more },
    { env: { FILE_KEY: 'canary-of-the-file' } },
  );
  const built = await Runtime.build(config, { name: 'parley', version: 'test' }, SILENT);
  open.push(built);
  return built;
}

const servers = {
  filed: { ...PLACE, headers: { 'X-Key': '$' + '{FILE_KEY}' }, timeouts: { call: '90s' } },
  program: { command: 'true' },
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-registry-service-'));
  runtime = await start({ servers });
  registry = runtime.registry;
});
afterAll(async () => {
  for (const built of open.reverse()) await built.close();
  await rm(folder, { recursive: true, force: true });
});

const create = (name: string, settings: UpstreamSettings = PLACE) =>
  registry.create('server', name, { by: BY, settings });
const failure = async (work: Promise<unknown> | (() => unknown)): Promise<ProtocolError> => {
  try {
    await (typeof work === 'function' ? work() : work);
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolError);
    return error as ProtocolError;
  }
  throw new Error('it did not fail');
};
const reason = async (work: Promise<unknown> | (() => unknown)): Promise<string> => (await failure(work)).reason;

describe('the registry', () => {
  it('S0-31: creates once, replaces and removes with versions, and says who did it', async () => {
    const first = await create('Alpha');
    expect(first).toMatchObject({
      name: 'alpha',
      source: 'registration',
      enabled: true,
      createdBy: 'root',
      settings: PLACE,
    });
    expect(await reason(create('alpha'))).toBe('already_exists');
    const replaced = await registry.replace('server', 'alpha', {
      by: { caller: 'eve' },
      expected: [first.version],
      settings: { ...PLACE, enabled: false },
    });
    expect(replaced).toMatchObject({ enabled: false, createdBy: 'root', updatedBy: 'eve', createdAt: first.createdAt });
    expect(replaced.version).not.toBe(first.version);
    // An entry that is switched off is known, but not in use.
    expect(runtime.mcp.servers.get('alpha')).toBeUndefined();
    expect(registry.get('server', 'ALPHA')).toEqual(replaced);
    const stale = { by: BY, expected: [first.version] };
    expect(await reason(registry.replace('server', 'alpha', { ...stale, settings: PLACE }))).toBe(
      'precondition_failed',
    );
    expect(await reason(registry.remove('server', 'alpha', stale))).toBe('precondition_failed');
    expect(await registry.remove('server', 'alpha', { by: BY, expected: [replaced.version] })).toBe(true);
    expect(await registry.remove('server', 'alpha', { by: BY })).toBe(false);
    expect(await reason(registry.replace('server', 'alpha', { by: BY, settings: PLACE }))).toBe('not_found');
    expect(registry.get('server', 'alpha')).toBeUndefined();
  });

  it('reads only the registration that changed', async () => {
    await create('kept1');
    await create('kept2');
    const opened = vi.spyOn(Envelope.prototype, 'open');
    try {
      await create('fresh');
      expect(opened.mock.calls.map(([row]) => row.at(-1))).toEqual(['fresh']);
    } finally {
      opened.mockRestore();
    }
    for (const name of ['kept1', 'kept2', 'fresh']) await registry.remove('server', name, { by: BY });
  });

  it('accepts one of several changes of the same version at the same time', async () => {
    const { version } = await create('raced');
    const results = await Promise.allSettled(
      ['1s', '2s', '3s', '4s'].map((call) =>
        registry.replace('server', 'raced', {
          by: BY,
          expected: [version],
          settings: { ...PLACE, timeouts: { call } },
        }),
      ),
    );
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    // Without a version all of them apply, one after the other.
    await Promise.all(
      ['5s', '6s', '7s'].map((call) => registry.patch('server', 'raced', { by: BY, settings: { timeouts: { call } } })),
    );
    const creations = await Promise.allSettled(['twin', 'twin'].map((name) => create(name)));
    expect(creations.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  it('S26: returns no secret, and keeps a secret if its mask is sent back', async () => {
    const entry = await create('keyed', {
      ...SECRET,
      auth: { apiKey: 'canary-secret-2' },
      url: 'http://127.0.0.1:9/?key=canary-secret-3',
    });
    expect(entry.settings).toEqual({
      url: `http://127.0.0.1:9/?key=${MASK}`,
      headers: { 'X-Key': MASK },
      auth: { apiKey: MASK },
    });
    const { version, settings } = entry;
    const kept = await registry.replace('server', 'keyed', {
      by: BY,
      expected: [version],
      settings: { ...settings, tools: { deny: ['x'] } },
    });
    expect(runtime.mcp.servers.get('keyed')).toMatchObject({
      url: 'http://127.0.0.1:9/?key=canary-secret-3',
      headers: { 'X-Key': 'canary-secret-1' },
      auth: { apiKey: 'canary-secret-2' },
      tools: { deny: ['x'] },
    });
    await registry.patch('server', 'keyed', { by: BY, settings: { tools: null } });
    expect(runtime.mcp.servers.get('keyed')).toMatchObject({
      headers: { 'X-Key': 'canary-secret-1' },
      tools: { deny: [] },
    });
    expect(JSON.stringify([entry, kept, registry.list('server')])).not.toContain('canary');
    // Otherwise a caller that cannot read the secret could have it sent to a server of its own.
    const elsewhere = { by: BY, settings: { ...settings, url: 'http://127.0.0.1:10/' } };
    expect((await failure(registry.replace('server', 'keyed', elsewhere))).message).toContain(
      'servers.keyed has another URL than before, so the stored secrets are not kept (write the secrets again)',
    );
    const foreign = { by: BY, settings: { ...PLACE, headers: { 'X-Other': MASK } } };
    expect((await failure(registry.replace('server', 'keyed', foreign))).message).toContain('is the mask of a secret');
    expect(await reason(create('masked', { ...PLACE, headers: { 'X-Key': MASK } }))).toBe('invalid_settings');
  });

  it('replaces, removes and restores an entry of the configuration file', async () => {
    const filed = registry.get('server', 'filed')!;
    expect(filed).toMatchObject({
      source: 'configuration',
      settings: { headers: { 'X-Key': MASK }, timeouts: { call: '90s' } },
    });
    // The settings in effect can be sent back as they were read.
    const { settings, version } = filed;
    const changed = await registry.replace('server', 'filed', {
      by: BY,
      expected: [version],
      settings: { ...settings, pool: 2 },
    });
    expect(changed).toMatchObject({ source: 'registration', replacesConfigured: true });
    expect(runtime.mcp.servers.get('filed')).toMatchObject({ pool: 2, headers: { 'X-Key': 'canary-of-the-file' } });
    expect(await reason(registry.replace('server', 'filed', { by: BY, expected: [version], settings }))).toBe(
      'precondition_failed',
    );
    expect(await registry.remove('server', 'filed', { by: BY })).toBe(true);
    expect(registry.get('server', 'filed')).toBeUndefined();
    expect(await registry.restore('server', 'filed', { by: BY })).toEqual(filed);
    expect(runtime.mcp.servers.get('filed')).toMatchObject({ pool: 4 });
    expect(await reason(registry.restore('server', 'nobody', { by: BY }))).toBe('not_found');
  });

  it('S1: lists a program of the configuration file, and takes none from a caller', async () => {
    const program = registry.get('server', 'program')!;
    expect(program.settings).toMatchObject({ command: 'true' });
    const { problems } = (await failure(create('sneaky', { command: 'true' }))).data as { problems: object[] };
    expect(problems).toEqual([expect.objectContaining({ key: 'servers.sneaky.command', code: 'conflict' })]);
    expect(await reason(registry.patch('server', 'program', { by: BY, settings: { args: ['x'] } }))).toBe(
      'invalid_settings',
    );
  });

  it.each([
    ['server', { ...PLACE, tls: { cert: '/etc/ssl/gateway.pem' } }, 'cannot name files of the gateway'],
    [
      'server',
      { ...PLACE, auth: { clientCredentials: { clientId: 'x', tokenUrl: PLACE.url, privateKey: 'key.pem' } } },
      'cannot name files',
    ],
    ['agent', { ...PLACE, keys: '/etc/keys.json' }, 'cannot name files'],
    ['server', { ...PLACE, headers: { A: '$' + '{HOME}' } }, 'cannot read the variables'],
    ['server', { serverUrl: PLACE.url }, 'not a known key'],
    ['server', { ...PLACE, auth_value: 'x' }, 'not a known key'],
    ['server', {}, 'neither url nor command'],
  ] as const)('refuses for a %s: %o', async (kind, settings, message) => {
    const error = await failure(registry.create(kind, 'refused', { by: BY, settings }));
    expect(error.reason).toBe('invalid_settings');
    expect(error.message).toContain(message);
    expect(registry.get(kind, 'refused')).toBeUndefined();
  });

  it('keeps the data of adapters, with a limit on its size', async () => {
    const { version } = await registry.create('server', 'meta', { by: BY, settings: PLACE, meta: { alias: 'm' } });
    const patched = await registry.patch('server', 'meta', { by: BY, expected: [version], settings: { pool: 2 } });
    expect(patched).toMatchObject({ meta: { alias: 'm' }, settings: { ...PLACE, pool: 2 } });
    const meta = { text: 'x'.repeat(70_000) };
    expect(await reason(registry.patch('server', 'meta', { by: BY, settings: {}, meta }))).toBe('body_too_large');
  });

  it('shows a change to the other replica, with the same versions of all entries', async () => {
    const other = await start({ servers });
    await create('shared');
    await eventually(
      () => [registry.list('server'), other.registry.list('server')] as const,
      ([here, there]) => JSON.stringify(here) === JSON.stringify(there),
    );
    expect(other.registry.get('server', 'shared')).toBeDefined();
  });
});

describe('S11: egress of registrations', () => {
  it('refuses private URLs when they are registered, in every key, and names the setting', async () => {
    const { registry: strict } = await start({ data: join(folder, 'strict'), egress: {} });
    const token = { clientCredentials: { clientId: 'x', clientSecret: 'y', tokenUrl: 'http://169.254.169.254/' } };
    for (const settings of [
      PLACE,
      { url: 'https://mcp.example/', proxy: PLACE.url },
      { url: 'https://mcp.example/', auth: token },
    ]) {
      const error = await failure(strict.create('server', 'inside', { by: BY, settings }));
      expect(error.message).toContain('egress.allow');
      expect(await reason(() => strict.check('agent', 'inside', PLACE))).toBe('invalid_settings');
    }
  });

  it('S0-16: refuses a private address when it is dialled, also if the rules have changed since the registration', async () => {
    let connections = 0;
    const canary = createServer((socket) => {
      connections += 1;
      socket.destroy();
    }).listen(0, '127.0.0.1');
    await once(canary, 'listening');
    const { port } = canary.address() as AddressInfo;
    try {
      const strict = await start({ data: join(folder, 'dialled'), egress: { ports: [port] } });
      const settings = { url: `http://127.0.0.1:${port}/` };
      for (const kind of ['agent', 'server'])
        await strict.state.registry.put(kind, `flipped-${kind}`, { settings: { ...settings, mcp: undefined } });
      await eventually(
        () => strict.a2a.directory.get('flipped-agent') && strict.mcp.catalog.upstream('flipped-server'),
        (found) => found !== undefined,
      );
      await expect(strict.a2a.directory.get('flipped-agent')!.facts()).rejects.toThrow();
      await expect(strict.mcp.catalog.upstream('flipped-server')!.describe()).rejects.toThrow();
      expect(connections).toBe(0);
    } finally {
      canary.close();
    }
  });
});
