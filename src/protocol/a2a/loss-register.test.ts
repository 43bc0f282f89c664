import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../jsonrpc/raw.js';
import type { Dialect } from './dialect.js';
import { dialect } from './index.js';
import { LOSSES, type Loss, type Noun } from './loss-register.js';
import {
  type AgentCard,
  type Artifact,
  type Message,
  type Part,
  type SendMessageRequest,
  type StreamResponse,
  TASK_STATES,
  type Task,
} from './model.js';

/** A card with a value in every place that the register names. */
const FULL_CARD: AgentCard = {
  name: 'Desk',
  description: 'Answers.',
  version: '1',
  supportedInterfaces: [
    { url: 'https://a.example/rpc', protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: 'acme' },
    { url: 'https://a.example/rpc', protocolBinding: 'JSONRPC', protocolVersion: '0.3', tenant: 'acme' },
  ],
  capabilities: { streaming: true, extendedAgentCard: true, extensions: [{ uri: 'urn:x' }] },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  iconUrl: 'https://a.example/icon.png',
  generation: '7',
  securitySchemes: {
    certificate: { mtlsSecurityScheme: { description: 'ours' } },
    login: {
      oauth2SecurityScheme: {
        oauth2MetadataUrl: 'https://a.example/oauth',
        flows: {
          authorizationCode: {
            authorizationUrl: 'https://a.example/authorize',
            tokenUrl: 'https://a.example/token',
            scopes: { read: 'reads' },
            pkceRequired: true,
          },
        },
      },
    },
    tv: {
      oauth2SecurityScheme: {
        flows: {
          deviceCode: {
            deviceAuthorizationUrl: 'https://a.example/device',
            tokenUrl: 'https://a.example/token',
            scopes: { read: 'reads' },
          },
        },
      },
    },
  },
  securityRequirements: [{ schemes: { login: { list: ['read'] } } }],
  skills: [
    {
      id: 's',
      name: 'S',
      description: 'd',
      tags: ['t'],
      securityRequirements: [{ schemes: { login: { list: ['read'] } } }],
    },
  ],
  signatures: [{ protected: 'p', signature: 's' }],
};

type Old = keyof typeof LOSSES;
const OLD = Object.keys(LOSSES) as Old[];

const wire = (value: JsonValue): JsonValue => JSON.parse(JSON.stringify(value)) as JsonValue;

// ---- generators for the values of 1.0

const name = fc.string({ minLength: 1, maxLength: 12, unit: 'grapheme' });
const key = fc.stringMatching(/^[a-z][a-zA-Z0-9]{1,8}$/).filter((each) => each !== 'constructor');
const json: fc.Arbitrary<JsonValue> = fc
  .jsonValue({ maxDepth: 2 })
  .map((value) => wire(value as JsonValue))
  .filter((value) => !JSON.stringify(value).includes('__proto__'));
const metadata = fc.dictionary(key, json, { minKeys: 1, maxKeys: 3 }) as fc.Arbitrary<JsonObject>;
const timestamp = fc
  .date({ min: new Date('2020-01-01T00:00:00Z'), max: new Date('2030-01-01T00:00:00Z'), noInvalidDate: true })
  .map((date) => date.toISOString());
/** A member that the model does not name, as a later version may add. */
const unknown = fc.option(fc.record({ generation: fc.string({ minLength: 1 }) }), { nil: {} });
const extended = <T extends object>(made: fc.Arbitrary<T>): fc.Arbitrary<T> =>
  fc.tuple(made, unknown).map(([value, more]) => ({ ...value, ...more }));

const about = { metadata, filename: name, mediaType: name };
const optional = { requiredKeys: [] as [] };
const content: fc.Arbitrary<Part> = fc.oneof(
  fc.record({ text: fc.string() }),
  fc.record({ raw: fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('base64')) }),
  fc.record({ url: fc.webUrl() }),
  fc.record({ data: json }),
);
const part: fc.Arbitrary<Part> = extended(
  fc.tuple(content, fc.record(about, optional)).map(([one, more]) => ({ ...one, ...more })),
);
const parts = fc.array(part, { minLength: 1, maxLength: 4 });
const names = fc.array(name, { minLength: 1, maxLength: 3 });

const message: fc.Arbitrary<Message> = extended(
  fc.record(
    {
      messageId: name,
      role: fc.constantFrom('ROLE_USER' as const, 'ROLE_AGENT' as const),
      parts,
      contextId: name,
      taskId: name,
      referenceTaskIds: names,
      extensions: names,
      metadata,
    },
    { requiredKeys: ['messageId', 'role', 'parts'] },
  ),
);
const artifact: fc.Arbitrary<Artifact> = extended(
  fc.record(
    { artifactId: name, parts, name, description: name, metadata, extensions: names },
    { requiredKeys: ['artifactId', 'parts'] },
  ),
);
const status = fc.record({ state: fc.constantFrom(...TASK_STATES), message, timestamp }, { requiredKeys: ['state'] });
const artifacts = fc.uniqueArray(artifact, { minLength: 1, maxLength: 3, selector: ({ artifactId }) => artifactId });
const task: fc.Arbitrary<Task> = extended(
  fc.record(
    {
      id: name,
      contextId: name,
      status,
      artifacts,
      history: fc.array(message, { minLength: 1, maxLength: 3 }),
      metadata,
    },
    { requiredKeys: ['id', 'contextId', 'status'] },
  ),
);
const event: fc.Arbitrary<StreamResponse> = fc.oneof(
  fc.record({ task }),
  fc.record({ message }),
  fc.record({
    statusUpdate: extended(
      fc.record(
        { taskId: name, contextId: name, status, metadata },
        { requiredKeys: ['taskId', 'contextId', 'status'] },
      ),
    ),
  }),
  fc.record({
    artifactUpdate: extended(
      fc.record(
        { taskId: name, contextId: name, artifact, append: fc.boolean(), lastChunk: fc.boolean(), metadata },
        { requiredKeys: ['taskId', 'contextId', 'artifact'] },
      ),
    ),
  }),
);
const push = fc.record(
  {
    url: fc.webUrl(),
    id: name,
    token: name,
    tenant: name,
    authentication: fc.record({ scheme: name, credentials: name }, { requiredKeys: ['scheme'] }),
  },
  { requiredKeys: ['url'] },
);
const request: fc.Arbitrary<SendMessageRequest> = extended(
  fc.record(
    {
      message,
      tenant: name,
      configuration: extended(
        fc.record(
          {
            acceptedOutputModes: names,
            taskPushNotificationConfig: push,
            historyLength: fc.nat(50),
            returnImmediately: fc.constant(true),
          },
          { requiredKeys: [] },
        ),
      ),
      metadata,
    },
    { requiredKeys: ['message'] },
  ),
);

// ---- removing the members that the register lists

const KNOWN: Readonly<Partial<Record<Noun, readonly string[]>>> = {
  request: ['message', 'tenant', 'configuration', 'metadata'],
  configuration: ['acceptedOutputModes', 'taskPushNotificationConfig', 'historyLength', 'returnImmediately'],
  push: ['url', 'id', 'taskId', 'token', 'tenant', 'authentication'],
  message: ['messageId', 'role', 'parts', 'contextId', 'taskId', 'referenceTaskIds', 'extensions', 'metadata'],
  part: ['text', 'raw', 'url', 'data', 'metadata', 'filename', 'mediaType'],
  artifact: ['artifactId', 'parts', 'name', 'description', 'metadata', 'extensions'],
  task: ['id', 'contextId', 'status', 'artifacts', 'history', 'metadata'],
  statusUpdate: ['taskId', 'contextId', 'status', 'metadata'],
  artifactUpdate: ['taskId', 'contextId', 'artifact', 'append', 'lastChunk', 'metadata'],
};

/** The members of each noun that hold other nouns. */
const INSIDE: Readonly<Partial<Record<Noun, Readonly<Record<string, Noun>>>>> = {
  request: { message: 'message', configuration: 'configuration' },
  configuration: { taskPushNotificationConfig: 'push' },
  message: { parts: 'part' },
  artifact: { parts: 'part' },
  task: { artifacts: 'artifact', history: 'message' },
  artifactUpdate: { artifact: 'artifact' },
};

function isLost({ member, when }: Loss, noun: Noun, name: string, value: JsonObject): boolean {
  if (member === '*') return !KNOWN[noun]?.includes(name);
  if (member !== name) return false;
  if (when === 'zero') return value[name] === 0;
  return when !== 'text or data' || (value['raw'] === undefined && value['url'] === undefined);
}

/** The value without the members listed as lost. An empty configuration counts as absent. */
function forget(value: JsonObject, noun: Noun, losses: readonly Loss[]): JsonObject {
  const mine = losses.filter((loss) => loss.noun === noun);
  const made: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined || mine.some((loss) => isLost(loss, noun, name, value))) continue;
    const inner = INSIDE[noun]?.[name];
    const forgotten = inner
      ? forgetIn(member, inner, losses)
      : name === 'status'
        ? forgetStatus(member, losses)
        : member;
    if (name === 'configuration' && Object.keys(forgotten as JsonObject).length === 0) continue;
    made[name] = forgotten;
  }
  return made;
}

const forgetIn = (value: JsonValue, noun: Noun, losses: readonly Loss[]): JsonValue =>
  Array.isArray(value)
    ? value.map((item) => forget(item as JsonObject, noun, losses))
    : forget(value as JsonObject, noun, losses);

function forgetStatus(value: JsonValue, losses: readonly Loss[]): JsonValue {
  const { message: said, ...rest } = value as JsonObject;
  return said === undefined ? rest : { ...rest, message: forgetIn(said, 'message', losses) };
}

function forgetEvent(value: StreamResponse, losses: readonly Loss[]): JsonObject {
  const [kind, inner] = Object.entries(value)[0] as [Noun, JsonObject];
  return { [kind]: forget(inner, kind, losses) };
}

const runs = { numRuns: 80 };

describe.each(OLD)('1.0 -> %s -> 1.0 loses the members in the register and nothing else', (id) => {
  const through = dialect(id);
  const losses = LOSSES[id];

  it('in tasks', () => {
    fc.assert(
      fc.property(task, (given) => {
        const back = through.readResult('GetTask', wire(through.writeResult('GetTask', given)));
        expect(forget(back, 'task', losses)).toEqual(forget(given, 'task', losses));
      }),
      runs,
    );
  });

  it('in SendMessage requests', () => {
    fc.assert(
      fc.property(request, (given) => {
        const back = through.readRequest('SendMessage', wire(through.writeRequest('SendMessage', given)) as JsonObject);
        expect(forget(back, 'request', losses)).toEqual(forget(given, 'request', losses));
      }),
      runs,
    );
  });

  it('in events', () => {
    fc.assert(
      fc.property(event, (given) => {
        // 0.1 has no event for a message, and represents a task as several events.
        fc.pre(id !== '0.1' || (!given.message && !given.task));
        const context = { taskId: 'known', contextId: 'known' };
        const written = through.eventWriter(context).write(given, false).map(wire);
        expect(written).toHaveLength(1);
        const [back] = through.eventReader(context).read(written[0] as JsonValue);
        expect(forgetEvent(back as StreamResponse, losses)).toEqual(forgetEvent(given, losses));
      }),
      runs,
    );
  });

  it('in push configurations', () => {
    fc.assert(
      fc.property(push, name, (config, taskId) => {
        // Resource names are paths, so their segments cannot contain slashes.
        fc.pre(!taskId.includes('/') && !config.id?.includes('/'));
        const given = { ...config, taskId };
        const operation = 'CreateTaskPushNotificationConfig';
        const asked = through.readRequest(operation, wire(through.writeRequest(operation, given)) as JsonObject);
        expect(forget(asked, 'push', losses)).toEqual(forget(given, 'push', losses));
        const back = through.readResult(operation, wire(through.writeResult(operation, given)));
        expect(forget(back, 'push', losses)).toEqual(forget(given, 'push', losses));
      }),
      runs,
    );
  });
});

describe('every member in the register is really lost', () => {
  const lostIn = (id: Old, member: Loss): boolean => {
    const through = dialect(id);
    const { noun, member: lost } = member;
    const sample = SAMPLES[noun];
    const own = lost === '*' ? 'generation' : lost;
    const back = sample.trip(through, own, member.when);
    return JSON.stringify(back) !== JSON.stringify(sample.value(own, member.when));
  };

  const text = (value: JsonValue): Part => ({ text: 'hello', ...(value as JsonObject) });
  const members: JsonObject = {
    tenant: 'acme',
    generation: '7',
    referenceTaskIds: ['t0'],
    extensions: ['urn:x'],
    metadata: { a: 1 },
    filename: 'a.txt',
    mediaType: 'text/plain',
    messageId: 'm1',
    contextId: 'c1',
    taskId: 't1',
    artifactId: 'a1',
    id: 'p1',
    returnImmediately: true,
    historyLength: 0,
  };
  const base: Message = { messageId: 'm0', role: 'ROLE_AGENT', parts: [{ text: 'hi' }] };
  const aTask = (more: Partial<Task>): Task => ({
    id: 't',
    contextId: 'c',
    status: { state: 'TASK_STATE_WORKING' },
    ...more,
  });
  type Sample = {
    value(member: string, when: Loss['when']): JsonValue | undefined;
    trip(through: Dialect, member: string, when: Loss['when']): JsonValue | undefined;
  };
  const viaTask = (make: (more: JsonObject) => Task, find: (task: Task) => JsonObject | undefined): Sample => ({
    value: (member) => members[member],
    trip: (through, member) => {
      const made = make({ [member]: members[member] });
      return find(through.readResult('GetTask', wire(through.writeResult('GetTask', made))))?.[member];
    },
  });
  const viaSend = (
    make: (more: JsonObject) => SendMessageRequest,
    find: (back: SendMessageRequest) => JsonObject | undefined,
  ): Sample => ({
    value: (member) => members[member],
    trip: (through, member) => {
      const made = make({ [member]: members[member] });
      const back = through.readRequest('SendMessage', wire(through.writeRequest('SendMessage', made)) as JsonObject);
      return find(back)?.[member];
    },
  });
  const update = { taskId: 't', status: { state: 'TASK_STATE_WORKING' as const } };
  const viaEvent = (make: (more: JsonObject) => StreamResponse, kind: 'statusUpdate' | 'artifactUpdate'): Sample => ({
    value: (member) => members[member],
    trip: (through, member) => {
      const written = through.eventWriter({}).write(make({ [member]: members[member] }), false);
      return through.eventReader({ taskId: 't' }).read(wire(written[0] as JsonValue))[0]?.[kind]?.[member];
    },
  });
  const oauth = (card: AgentCard, name: string): JsonObject | undefined =>
    (card.securitySchemes?.[name] as JsonObject | undefined)?.['oauth2SecurityScheme'] as JsonObject | undefined;
  const flows = (card: AgentCard, name: string) => oauth(card, name)?.['flows'] as JsonObject | undefined;
  /** Takes a card with every member, and compares one place in it before and after. */
  const viaCard = (find: (card: AgentCard) => JsonObject | undefined): Sample => ({
    value: (member) => find(FULL_CARD)?.[member],
    trip: (through, member) => find(through.readCard(wire(written(through, FULL_CARD)) as JsonObject))?.[member],
  });
  const written = (through: Dialect, card: AgentCard): JsonValue =>
    through.id === '0.3-proto' ? through.writeResult('GetExtendedAgentCard', card) : through.writeCard(card);
  const SAMPLES: Record<Noun, Sample> = {
    card: viaCard((card) => card),
    interface: viaCard((card) => card.supportedInterfaces.find(({ protocolVersion }) => protocolVersion !== '1.0')),
    skill: viaCard((card) => card.skills[0]),
    securityScheme: viaCard((card) => card.securitySchemes?.['certificate'] as JsonObject | undefined),
    oauth2: viaCard((card) => oauth(card, 'login')),
    flows: viaCard((card) => flows(card, 'tv')),
    flow: viaCard((card) => flows(card, 'login')?.['authorizationCode'] as JsonObject | undefined),
    cancel: {
      value: (member) => members[member],
      trip: (through, member) => {
        const given = through.writeRequest('CancelTask', { id: 't', [member]: members[member] });
        return (through.readRequest('CancelTask', wire(given) as JsonObject) as JsonObject)[member];
      },
    },
    message: viaTask(
      (more) => aTask({ history: [{ ...base, ...more }] }),
      (back) => back.history?.[0],
    ),
    part: viaTask(
      (more) => aTask({ history: [{ ...base, parts: [text(more)] }] }),
      (back) => back.history?.[0]?.parts[0],
    ),
    artifact: viaTask(
      (more) => aTask({ artifacts: [{ artifactId: 'a', parts: [{ text: 'x' }], ...more }] }),
      (back) => back.artifacts?.[0],
    ),
    task: viaTask(
      (more) => aTask(more),
      (back) => back,
    ),
    request: viaSend(
      (more) => ({ message: base, ...more }),
      (back) => back,
    ),
    configuration: viaSend(
      (more) => ({ message: base, configuration: more }),
      (back) => back.configuration,
    ),
    push: viaSend(
      (more) => ({
        message: base,
        configuration: { taskPushNotificationConfig: { url: 'https://a.example', ...more } },
      }),
      (back) => back.configuration?.taskPushNotificationConfig,
    ),
    statusUpdate: viaEvent((more) => ({ statusUpdate: { contextId: 'c', ...update, ...more } }), 'statusUpdate'),
    artifactUpdate: viaEvent(
      (more) => ({
        artifactUpdate: { taskId: 't', contextId: 'c', artifact: { artifactId: 'a', parts: [{ text: 'x' }] }, ...more },
      }),
      'artifactUpdate',
    ),
  };

  it.each(OLD.flatMap((id) => LOSSES[id].map((each) => [id, each.noun, each.member, each] as const)))(
    '%s: %s.%s',
    (id, _noun, _member, each) => {
      expect(lostIn(id, each)).toBe(true);
    },
  );
});

describe('0.3 -> 1.0 -> 0.3', () => {
  const file = fc.record({ name, mimeType: name }, { requiredKeys: [] });
  const oldPart = fc.oneof(
    fc.record({ kind: fc.constant('text'), text: fc.string(), metadata }, { requiredKeys: ['kind', 'text'] }),
    fc.record({
      kind: fc.constant('file'),
      file: fc
        .tuple(
          content.filter(({ raw }) => raw !== undefined),
          file,
        )
        .map(([{ raw }, more]) => ({ bytes: raw, ...more })),
    }),
    fc.record({
      kind: fc.constant('file'),
      file: fc.tuple(fc.webUrl(), file).map(([uri, more]) => ({ uri, ...more })),
    }),
    fc.record({ kind: fc.constant('data'), data: metadata, metadata }, { requiredKeys: ['kind', 'data'] }),
  );
  const oldMessage = fc.record(
    {
      kind: fc.constant('message'),
      messageId: name,
      role: fc.constantFrom('user', 'agent'),
      parts: fc.array(oldPart, { minLength: 1, maxLength: 3 }),
      contextId: name,
      taskId: name,
      referenceTaskIds: names,
      extensions: names,
      metadata,
    },
    { requiredKeys: ['kind', 'messageId', 'role', 'parts'] },
  );
  const states = [
    'submitted',
    'working',
    'input-required',
    'completed',
    'canceled',
    'failed',
    'rejected',
    'auth-required',
  ];
  const oldStatus = fc.record(
    { state: fc.constantFrom(...states, 'unknown'), message: oldMessage, timestamp },
    { requiredKeys: ['state'] },
  );
  const oldTask = fc.record(
    {
      kind: fc.constant('task'),
      id: name,
      contextId: name,
      status: oldStatus,
      history: fc.array(oldMessage, { minLength: 1, maxLength: 2 }),
      artifacts: fc.array(
        fc.record(
          {
            artifactId: name,
            name,
            description: name,
            parts: fc.array(oldPart, { minLength: 1 }),
            metadata,
            extensions: names,
          },
          { requiredKeys: ['artifactId', 'parts'] },
        ),
        { minLength: 1, maxLength: 2 },
      ),
      metadata,
    },
    { requiredKeys: ['kind', 'id', 'contextId', 'status'] },
  );

  it('loses nothing from a task', () => {
    const old = dialect('0.3');
    fc.assert(
      fc.property(oldTask, (given) => {
        const task = old.readResult('GetTask', wire(given as unknown as JsonValue));
        expect(wire(old.writeResult('GetTask', task))).toEqual(wire(given as unknown as JsonValue));
      }),
      runs,
    );
  });

  it('loses nothing from a SendMessage request', () => {
    const old = dialect('0.3');
    fc.assert(
      fc.property(oldMessage, fc.boolean(), metadata, (message, blocking, about) => {
        const configuration = { acceptedOutputModes: ['text/plain'], blocking, historyLength: 3 };
        const given = wire({ message, configuration, metadata: about } as unknown as JsonValue) as JsonObject;
        expect(wire(old.writeRequest('SendMessage', old.readRequest('SendMessage', given)))).toEqual(given);
      }),
      runs,
    );
  });
});
