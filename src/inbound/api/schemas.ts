/** The schemas of the management API. Each is a component of the OpenAPI document. */
import type { JsonSchema } from '../http/route.js';

const text: JsonSchema = { type: 'string' };
const flag: JsonSchema = { type: 'boolean' };
const count: JsonSchema = { type: 'integer' };
const texts: JsonSchema = { type: 'array', items: text };
const time: JsonSchema = { type: 'integer', description: 'Milliseconds since 1970.' };
const anything: JsonSchema = { type: 'object', additionalProperties: true };

const shape = (
  properties: Readonly<Record<string, JsonSchema>>,
  required: readonly string[],
  description?: string,
): JsonSchema => ({
  type: 'object',
  ...(description !== undefined && { description }),
  required,
  properties,
});

const upstream = (what: string): JsonSchema =>
  shape(
    {
      name: text,
      status: { type: 'string', enum: ['up', 'down', 'starting', 'off'] },
      since: {
        ...time,
        description: 'The time of the change to this status, as this replica saw it, in milliseconds.',
      },
      count: { ...count, description: what },
      problem: text,
      violations: {
        ...shape({ sampled: count, kinds: { type: 'object', additionalProperties: count } }, ['sampled', 'kinds']),
        description: 'Violations of the protocol in the calls that `assess.samplePercent` examines, by kind.',
      },
      source: { type: 'string', enum: ['configuration', 'registration'] },
      replicas: {
        type: 'array',
        items: shape(
          {
            ...{ position: count, url: text, status: text, detail: text, breaker: anything, differs: text },
            ...{ inFlight: count, calls: count, failures: count, expected: { type: 'number' } },
          },
          ['position', 'url', 'status'],
        ),
        description: 'The state of each equivalent server, if there are several. For administrators.',
      },
      replacesConfigured: flag,
      enabled: flag,
      settings: {
        ...anything,
        description: 'In the form of the configuration file; secrets are masked. For administrators.',
      },
      version: { ...text, description: 'The value of the ETag. For administrators.' },
      createdAt: time,
      createdBy: text,
      updatedAt: time,
      updatedBy: text,
    },
    ['name', 'status'],
  );

export const SCHEMAS = {
  Problem: shape(
    {
      type: text,
      title: text,
      status: count,
      detail: text,
      reason: text,
      requestId: text,
      problems: {
        type: 'array',
        items: shape({ key: text, code: text, message: text, fix: text }, ['key', 'message']),
      },
    },
    ['type', 'title', 'status', 'detail', 'reason'],
    'Problem details (RFC 9457).',
  ),
  Server: upstream('The number of tools.'),
  Agent: upstream('The number of skills.'),
  Me: shape(
    {
      caller: text,
      issuer: text,
      subject: text,
      tenant: text,
      roles: texts,
      scopes: texts,
      groups: texts,
      admin: flag,
    },
    ['caller', 'roles', 'admin'],
  ),
  Status: shape(
    {
      version: text,
      replica: text,
      replicas: count,
      sessions: count,
      storage: text,
      servers: anything,
      agents: anything,
    },
    ['version', 'servers', 'agents'],
  ),
  Tool: shape({ name: text, server: text, title: text, description: text, inputSchema: anything }, ['name']),
  Session: shape(
    {
      id: text,
      caller: text,
      revision: text,
      client: anything,
      server: text,
      createdAt: time,
      updatedAt: time,
      expiresAt: time,
    },
    ['id', 'caller'],
  ),
  Task: shape(
    {
      id: text,
      protocol: { type: 'string', enum: ['mcp', 'a2a'] },
      caller: text,
      server: text,
      status: text,
      replica: text,
      createdAt: time,
      updatedAt: time,
      expiresAt: time,
    },
    ['id', 'protocol', 'caller'],
  ),
  ParkedCall: shape({ id: text, caller: text, replica: text, createdAt: time, expiresAt: time }, ['id', 'caller']),
  Key: shape(
    {
      id: text,
      name: text,
      tenant: text,
      roles: texts,
      servers: texts,
      tools: texts,
      createdAt: time,
      expiresAt: time,
      lastUsedAt: time,
      revokedAt: time,
    },
    ['id', 'name', 'roles', 'servers', 'tools', 'createdAt'],
  ),
  NewKey: shape({ key: { ...text, description: 'The key itself. It is shown here only.' } }, ['key']),
  Pin: shape(
    {
      server: text,
      kind: text,
      name: text,
      hash: text,
      seen: text,
      reason: text,
      flags: texts,
      definition: text,
      seenDefinition: text,
      firstAt: time,
      changedAt: time,
      approvedAt: time,
    },
    ['server', 'kind', 'name', 'hash'],
  ),
  AuditRecord: shape({ at: time, chain: text, seq: count, hash: text, value: anything }, [
    'at',
    'chain',
    'seq',
    'hash',
    'value',
  ]),
  Webhook: shape(
    {
      id: text,
      agent: text,
      owner: text,
      task: text,
      config: text,
      target: text,
      attempts: count,
      createdAt: time,
      error: { type: ['string', 'null'] },
    },
    ['id', 'agent', 'target'],
  ),
  Score: shape(
    {
      evaluator: text,
      server: text,
      tool: { ...text, description: 'The tool, or the agent itself.' },
      since: { ...time, description: 'The beginning of the hour, in milliseconds since 1970.' },
      count,
      mean: { type: 'number' },
      lowest: { type: 'number' },
      lowestRequestId: text,
    },
    ['evaluator', 'server', 'tool', 'since', 'count', 'mean', 'lowest'],
  ),
  RoutingStats: shape(
    {
      mode: { type: 'string', enum: ['off', 'shadow', 'on'] },
      outcomes: count,
      callers: count,
      loudCallers: {
        ...count,
        description:
          'The number of callers whose outcomes are so many that they count only for these callers themselves.',
      },
      weights: anything,
      tools: { type: 'array', items: shape({ server: text, name: text, outcomes: count }, ['server', 'name']) },
      replica: { ...anything, description: 'Searches and outcomes of this replica since its start.' },
    },
    ['mode', 'outcomes', 'callers', 'weights', 'tools'],
  ),
  RoutingExplanation: shape(
    {
      mode: { type: 'string', enum: ['off', 'shadow', 'on'] },
      needs: texts,
      terms: { type: 'array', items: anything },
      tools: { type: 'array', items: anything },
      servers: { type: 'array', items: anything },
    },
    ['mode', 'needs', 'terms', 'tools', 'servers'],
  ),
  View: shape(
    { name: text, path: text, servers: texts, settings: anything },
    ['name', 'path'],
    'A view; `servers` and `settings` are for administrators.',
  ),
  Replica: shape({ id: text, self: flag }, ['id', 'self']),
  Anything: anything,
} as const satisfies Record<string, JsonSchema>;

export const ref = (name: keyof typeof SCHEMAS): JsonSchema => ({ $ref: `#/components/schemas/${name}` });

/** Settings of a server or agent: the registry checks each key, so the schema only asks for an object. */
export const SETTINGS: JsonSchema = { type: 'object', description: 'Settings in the form of the configuration file.' };
