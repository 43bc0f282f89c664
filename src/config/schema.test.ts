import { expect, expectTypeOf, test } from 'vitest';
import { REVISION_DATES } from '../protocol/mcp/revisions/index.js';
import type { ListenAddress } from './address-fields.js';
import type { Field } from './field.js';
import { Refusal } from './field.js';
import { configFrom } from './load.js';
import { type Config, SCHEMA, type ServerConfig } from './schema.js';

test('the defaults', () => {
  const { config } = configFrom({}, { cwd: '/here' });
  expect(config).toEqual({
    listen: { host: '127.0.0.1', port: 4600 },
    tls: { clientCertificate: 'required' },
    trustedProxies: [],
    data: '/here/.parley',
    servers: {},
    agents: {},
    assess: { onRegister: 'off', below: 80, time: 20_000, samplePercent: 0 },
    views: {},
    grpc: {},
    a2a: {
      enabled: true,
      publicCards: true,
      name: 'Parley',
      description: 'A gateway to the agents behind it; each message goes to the one that suits it.',
      errorProfile: '1.0.1',
      maxHops: 8,
      taskTtl: 259_200_000,
      parts: 1000,
      artifacts: 1000,
      history: 1000,
      tasks: 10_000,
      taskSize: 16_777_216,
      streams: 100,
      followed: 1000,
      pushConfigs: 20,
    },
    egress: { allowPrivate: false, allow: [], deny: [], ports: [] },
    pin: 'warn',
    plugins: [],
    naming: { separator: '__', prefix: 'always' },
    reload: { watch: true },
    routing: {
      exposure: 'full',
      pinned: [],
      objective: 1_000,
      recordChoices: true,
      learn: 'off',
      keepTexts: false,
      vectors: { model: 'default', weight: 40, timeout: 500 },
    },
    timeouts: {
      connect: 5000,
      connectCommand: 60_000,
      call: 60_000,
      callMax: 600_000,
      drain: 30_000,
      head: 5000,
      request: 30_000,
      idle: 75_000,
      webSocketPing: 30_000,
    },
    limits: {
      body: 4_194_304,
      event: 4_194_304,
      depth: 64,
      members: 100_000,
      batch: 50,
      pageSize: 1000,
      connections: 10_000,
      connectionsPerAddress: 1000,
      callsPerCaller: 2_000,
      callsPerSession: 500,
      callsPerServer: 5_000,
      callBytesPerCaller: 64 * 1024 * 1024,
      callBytes: 256 * 1024 * 1024,
      webSockets: 1_000,
      webSocketsPerCaller: 100,
      head: 16_384,
      unread: 134_217_728,
      rates: [],
      overload: { eventLoopDelay: 1_000, heapPercent: 95 },
    },
    metrics: { enabled: true, access: 'admin' },
    tracing: { enabled: true, samplePercent: 5, exportErrors: true },
    audit: {
      ...{ enabled: true, calls: 'auto', exclude: ['ping'], arguments: 'hash', onFailure: 'open', spool: 10_000 },
    },
    auth: {
      tokens: [],
      keys: false,
      jwt: [],
      builtin: {
        enabled: false,
        passwords: true,
        registration: true,
        clientMetadata: true,
        accessTokenLife: 600_000,
        refreshTokenLife: 1_209_600_000,
        sessionLife: 43_200_000,
        login: {
          scopes: ['openid', 'profile', 'email'],
          rolesClaim: 'groups',
          roles: [],
          allowClaim: 'groups',
          allow: [],
        },
      },
      certificates: {},
      roles: [],
      scopes: [],
      publicDiscovery: false,
      failures: { perAddress: 30, perAccount: 30, window: 60_000 },
    },
    hosts: [],
    origins: [],
    cors: { origins: ['*'], credentials: false },
    session: { idle: 1_800_000, max: 10_000, maxPerCaller: 1_000, resumeWindow: 600_000, clientTermination: true },
    mcp: {
      enabled: true,
      strictAccept: false,
      versionNegotiation: 'lenient',
      invocation: true,
      sse: true,
      rawProxy: false,
      webSocket: true,
      legacyMode: false,
    },
    bridge: {
      roots: true,
      sampling: true,
      logging: true,
      parkTtl: 600_000,
      maxParked: 1000,
      maxParkedPerCaller: 100,
      maxParkedPerServer: 500,
      maxTasks: 10_000,
      maxTasksPerCaller: 1_000,
    },
    policy: { rules: [], mode: 'enforce', proposed: [], approve: { tools: [], destructive: false } },
    state: { keys: [], retention: { auditDays: 365, deadDeliveryDays: 30 } },
    health: { interval: 30_000 },
    evaluators: {},
    explainFailures: 'auto',
    log: { level: 'info', format: 'auto' },
  });
});

test('the defaults of a server', () => {
  const { config } = configFrom({ servers: { a: { url: 'http://127.0.0.1:1/mcp' } } });
  expect(config.servers['a']).toEqual({
    url: 'http://127.0.0.1:1/mcp',
    replicas: [],
    args: [],
    env: {},
    headers: {},
    auth: { oauth: { scopes: [], quirks: [] }, clientCredentials: {}, tokenExchange: {} },
    forwardHeaders: {},
    callerHeaders: [],
    transport: 'auto',
    revision: 'auto',
    invocation: true,
    pin: 'warn',
    enabled: true,
    pool: 4,
    tls: {},
    timeouts: { connect: 5000, call: 60_000, callMax: 600_000 },
    breaker: { failures: 5, pause: 2_000 },
    tools: { allow: [], deny: [], rename: {}, trust: 100 },
    groups: [],
    lint: 'warn',
    validation: 'off',
  });
});

test('the defaults of an agent', () => {
  const { config } = configFrom({ agents: { Planner: { url: 'http://127.0.0.1:1' } } });
  expect(config.agents).toEqual({
    planner: {
      url: 'http://127.0.0.1:1',
      tools: [],
      version: 'auto',
      binding: 'auto',
      headers: {},
      auth: { oauth: { scopes: [], quirks: [] }, clientCredentials: {}, tokenExchange: {} },
      forwardHeaders: {},
      signatures: 'verify',
      hosts: [],
      mcp: true,
      pin: 'warn',
      enabled: true,
      tls: {},
      timeouts: { connect: 5000, call: 60_000, callMax: 600_000 },
    },
  });
});

test.each([
  [
    'is taken: /connect/callback is an endpoint of the gateway',
    { servers: { callback: { url: 'http://127.0.0.1:1', auth: { oauth: { registration: 'auto' } } } } },
  ],
  ['is taken: /a2a/push is an endpoint of the gateway', { agents: { push: { url: 'http://127.0.0.1:1' } } }],
  ['has neither url nor tools', { agents: { a: {} } }],
  ['has both a url and tools', { agents: { a: { url: 'http://127.0.0.1:1', tools: ['x'] } } }],
  ['is also the name of a server', { servers: { a: { command: 'x' } }, agents: { a: { url: 'http://127.0.0.1:1' } } }],
  ['can be reached from other machines', { grpc: { listen: '0.0.0.0:4601' } }],
])('an agent is refused: %s', (message, value) => {
  expect(() => configFrom(value)).toThrow(message);
});

test('every supported revision can be configured', () => {
  for (const revision of REVISION_DATES) {
    expect(configFrom({ servers: { a: { command: 'x', revision } } }).config.servers['a']?.revision).toBe(revision);
  }
});

function* scalars(field: Field, key: string): Generator<[string, Extract<Field, { kind: 'scalar' }>]> {
  if (field.kind === 'scalar') yield [key, field];
  else if (field.kind === 'group') {
    for (const [name, child] of Object.entries(field.fields)) yield* scalars(child, `${key}.${name}`);
  } else yield* scalars(field.item, key);
}

test('every default is valid, and its shown form reads as the same value', () => {
  for (const [key, field] of scalars(SCHEMA, '')) {
    if (field.default === undefined || field.default === null) continue;
    const value = field.read(field.default, { directory: '/here' });
    expect(value, key).not.toBeInstanceOf(Refusal);
    expect(field.read(field.show(value) as string, { directory: '/here' }), key).toEqual(value);
  }
});

test('every key is described in one sentence', () => {
  for (const [key, field] of scalars(SCHEMA, '')) {
    expect(field.description, key).toMatch(/^[A-Z`].*\.$/);
    expect(field.description, key).not.toMatch(/\. [A-Z]/);
  }
});

test('the type matches the schema', () => {
  expectTypeOf<Config['listen']>().toEqualTypeOf<ListenAddress>();
  expectTypeOf<Config['data']>().toEqualTypeOf<string>();
  expectTypeOf<Config['timeouts']['callMax']>().toEqualTypeOf<number>();
  expectTypeOf<Config['naming']['prefix']>().toEqualTypeOf<'always' | 'conflict' | 'never'>();
  expectTypeOf<Config['hosts']>().toEqualTypeOf<readonly string[]>();
  expectTypeOf<Config['auth']['tokens'][number]>().toEqualTypeOf<{
    readonly name: string;
    readonly token: string;
    readonly admin: boolean;
  }>();
  expectTypeOf<Config['publicUrl']>().toEqualTypeOf<string | undefined>();
  expectTypeOf<Config['servers']>().toEqualTypeOf<Readonly<Record<string, ServerConfig>>>();
  expectTypeOf<ServerConfig['url']>().toEqualTypeOf<string | undefined>();
  expectTypeOf<ServerConfig['env']>().toEqualTypeOf<Readonly<Record<string, string>>>();
  expectTypeOf<ServerConfig['timeouts']['call']>().toEqualTypeOf<number>();
  expectTypeOf<ServerConfig['transport']>().toEqualTypeOf<'auto' | 'http' | 'sse'>();
});
