import { Environment } from '@marcbachmann/cel-js';
import { matchesPattern } from './linear-regex.js';

/** The caller, as conditions see it. */
export class CallerVariables {
  constructor(
    readonly id: string,
    readonly subject: string,
    readonly issuer: string,
    readonly roles: readonly string[],
    readonly scopes: readonly string[],
    readonly groups: readonly string[],
    readonly tenant: string,
  ) {}
}

/** The MCP target under the names that agentgateway uses. */
export class McpVariables {
  constructor(
    readonly server: string | undefined,
    readonly tool: string | undefined,
    readonly prompt: string | undefined,
    readonly resource: string | undefined,
  ) {}
}

/** The A2A target under the names that agentgateway uses. */
export class A2aVariables {
  constructor(
    readonly agent: string | undefined,
    readonly skill: string | undefined,
  ) {}
}

export interface Variable {
  readonly name: string;
  readonly type: string;
  readonly description: string;
  /** `caller` and `target` are the same for every call of a caller to a target; `call` may differ each time. */
  readonly from: 'caller' | 'target' | 'call';
}

/** Every variable of a condition. A name with a dot is a field of the variable before the dot. */
export const VARIABLES = [
  {
    name: 'caller.id',
    type: 'string',
    from: 'caller',
    description: 'The name of the caller in the log, which owns its sessions and tasks.',
  },
  {
    name: 'caller.subject',
    type: 'string',
    from: 'caller',
    description: 'The name in `auth.tokens`, or the subject of the token.',
  },
  {
    name: 'caller.issuer',
    type: 'string',
    from: 'caller',
    description: 'The issuer of the subject; `parley` for callers of the configuration.',
  },
  { name: 'caller.roles', type: 'list<string>', from: 'caller', description: 'The roles, such as `admin`.' },
  { name: 'caller.scopes', type: 'list<string>', from: 'caller', description: 'The scopes of the token.' },
  { name: 'caller.groups', type: 'list<string>', from: 'caller', description: 'The groups that the issuer names.' },
  { name: 'caller.tenant', type: 'string', from: 'caller', description: 'The tenant; empty without tenants.' },
  {
    name: 'jwt',
    type: 'map<string, dyn>',
    from: 'caller',
    description: 'The verified claims of the token, such as `jwt.email`; empty for other callers.',
  },
  {
    name: 'server',
    type: 'string',
    from: 'target',
    description: 'The name of the server or agent in the configuration.',
  },
  { name: 'tool', type: 'string', from: 'target', description: "The tool's name at its server, without prefix." },
  {
    name: 'kind',
    type: 'string',
    from: 'target',
    description: '`tool`, `prompt`, `resource`, `agent`, `task`, or `method` for a method that only the server knows.',
  },
  {
    name: 'annotations',
    type: 'map<string, dyn>',
    from: 'target',
    description:
      "The tool's annotations. Hints that it does not declare have the defaults of MCP: `readOnlyHint` false, `destructiveHint` true unless read-only, `idempotentHint` false, `openWorldHint` true.",
  },
  { name: 'protocol', type: 'string', from: 'target', description: '`mcp` or `a2a`.' },
  {
    name: 'method',
    type: 'string',
    from: 'target',
    description: 'The MCP method or the A2A operation, such as `tools/call` or `SendMessage`.',
  },
  { name: 'mcp.server', type: 'string', from: 'target', description: 'The MCP server; the same as `server`.' },
  { name: 'mcp.tool', type: 'string', from: 'target', description: 'The tool; the same as `tool`.' },
  { name: 'mcp.prompt', type: 'string', from: 'target', description: "The prompt's name at its server." },
  { name: 'mcp.resource', type: 'string', from: 'target', description: 'The URI of the resource.' },
  { name: 'a2a.agent', type: 'string', from: 'target', description: 'The A2A agent.' },
  {
    name: 'a2a.skill',
    type: 'string',
    from: 'call',
    description: 'The skill that the message names in its metadata; an agent may ignore it.',
  },
  {
    name: 'arguments',
    type: 'dyn',
    from: 'call',
    description: 'The arguments of a tool or prompt; the parameters of every other call.',
  },
  { name: 'args', type: 'dyn', from: 'call', description: 'The same as `arguments`.' },
  {
    name: 'time',
    type: 'google.protobuf.Timestamp',
    from: 'call',
    description: 'The current time, for example `time.getHours("Europe/Berlin")`.',
  },
] as const satisfies readonly Variable[];

export type VariableName = (typeof VARIABLES)[number]['name'];

const BY_NAME: ReadonlyMap<string, Variable> = new Map(VARIABLES.map((variable) => [variable.name, variable]));

/** Whether the variable has the same value for every call of a caller to a target. */
export const isFixed = (name: VariableName): boolean => BY_NAME.get(name)?.from !== 'call';

/** Whether the variable has the same value for every call of a caller, whatever the target. */
export const isOfCaller = (name: VariableName): boolean => BY_NAME.get(name)?.from === 'caller';

const OF_TOOL: ReadonlySet<VariableName> = new Set(['server', 'tool', 'annotations', 'mcp.server', 'mcp.tool']);

/** Whether the variable has the same value for every caller of a tool. */
export const isOfTool = (name: VariableName): boolean => OF_TOOL.has(name);

/** The variables of a name without field: itself, or all fields of that object. */
export const variablesBelow = (name: string): VariableName[] =>
  VARIABLES.filter((variable) => variable.name === name || variable.name.startsWith(`${name}.`)).map(
    (variable) => variable.name,
  );

export const isVariable = (name: string): name is VariableName => BY_NAME.has(name);

const fieldsOf = (name: string): Record<string, string> =>
  Object.fromEntries(
    VARIABLES.filter((variable) => variable.name.startsWith(`${name}.`)).map((variable) => [
      variable.name.slice(name.length + 1),
      variable.type,
    ]),
  );

/** The name of the linear replacement of `matches` in parsed expressions; no source text contains it. */
export const LINEAR_MATCHES = 'matchesInLinearTime';

/** Declares every variable, so that a misspelt variable is an error when the configuration is read. */
export const ENVIRONMENT = new Environment({
  unlistedVariablesAreDyn: false,
  homogeneousAggregateLiterals: false,
  enableOptionalTypes: true,
  limits: { maxAstNodes: 2_000, maxDepth: 50, maxListElements: 1_000, maxMapEntries: 200, maxCallArguments: 16 },
});
for (const [name, type, ctor] of [
  ['caller', 'Caller', CallerVariables],
  ['mcp', 'Mcp', McpVariables],
  ['a2a', 'A2a', A2aVariables],
] as const)
  ENVIRONMENT.registerType(type, { ctor: ctor as never, fields: fieldsOf(name) }).registerVariable(name, type);
for (const { name, type } of VARIABLES) if (!name.includes('.')) ENVIRONMENT.registerVariable(name, type);
ENVIRONMENT.registerFunction(`string.${LINEAR_MATCHES}(string): bool`, (text: string, pattern: string) =>
  matchesPattern(text, pattern),
);
