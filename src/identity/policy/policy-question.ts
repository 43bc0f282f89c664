import type { AdmissionRequest, ItemTarget, Target } from '../../core/admission.js';
import type { Principal } from '../../core/caller.js';
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';
import { skillHint } from '../../protocol/protocol-bridge/tool-skill.js';
import type { KnownVariables, Values } from './condition.js';
import { newDecision } from './evaluation-cost.js';
import { A2aVariables, CallerVariables, McpVariables, type VariableName } from './variables.js';

/** One question to a policy. */
export interface Question {
  readonly principal: Principal;
  readonly protocol: 'mcp' | 'a2a' | undefined;
  /** The method; undefined if the question is about every method. */
  readonly method: string | undefined;
  readonly subject: Subject;
  /** The arguments, parsed on first read; absent if the question is about all arguments. */
  readonly arguments?: () => JsonValue | undefined;
}

/**
 * The target of a question. `server`: any item of a server, or of every server if `server` is undefined. Such an item
 * may be a tool, a prompt or a resource.
 */
export interface Subject {
  readonly kind: 'tool' | 'prompt' | 'resource' | 'agent' | 'method' | 'server';
  readonly server: string | undefined;
  readonly name: string;
  /** The tool as its server lists it, if known. */
  readonly definition?: JsonObject | undefined;
}

/** A question about the visibility of an item. Its arguments are left open. */
export function visibilityOf(principal: Principal, { kind, server, name, definition }: ItemTarget): Question {
  const subject: Subject =
    kind === 'server' || kind === 'task'
      ? { kind: 'server', server, name: server }
      : { kind, server, name, ...(definition && { definition }) };
  const protocol = kind === 'agent' ? 'a2a' : kind === 'server' ? undefined : 'mcp';
  return { principal, protocol, method: kind === 'tool' ? 'tools/call' : undefined, subject };
}

/** A question about any call; without a target it is about no single item. */
export function questionOf(request: Omit<AdmissionRequest, 'target'>, target: Target | undefined): Question {
  if (target && target.kind !== 'catalog') return callOf(request, target);
  const { caller, protocol, method } = request;
  const server = target?.server;
  return { principal: caller.principal, protocol, method, subject: { kind: 'server', server, name: server ?? '' } };
}

/** A question about a call to an item. */
export function callOf(request: Omit<AdmissionRequest, 'target'>, target: ItemTarget): Question {
  const { caller, protocol, method, item } = request;
  const { server, kind, name } = target;
  const definition = item?.value;
  // A task was created by a call of some tool of its server, so the question is about any tool of that server.
  const subject: Subject =
    kind === 'task' || kind === 'server'
      ? { kind: 'server', server, name: server }
      : { kind, server, name, ...(definition && { definition }) };
  const open = subject.kind === 'server';
  return {
    ...{ principal: caller.principal, protocol, method, subject },
    ...(!open && { arguments: () => request.arguments }),
  };
}

type State = ReturnType<KnownVariables['state']>;

const ITEM_VARIABLES: Readonly<Record<string, readonly Subject['kind'][]>> = {
  tool: ['tool'],
  annotations: ['tool'],
  'mcp.tool': ['tool'],
  'mcp.prompt': ['prompt'],
  'mcp.resource': ['resource'],
  'mcp.server': ['tool', 'prompt', 'resource', 'method'],
  'a2a.agent': ['agent'],
  'a2a.skill': ['agent'],
};

/** The variables of a question. Every value is made on first read. */
export class Facts implements KnownVariables, Values {
  [name: string]: unknown;
  readonly values: Values = this;
  readonly decision = newDecision();

  constructor(
    private readonly question: Question,
    readonly ofTool?: Map<object, unknown>,
  ) {}

  readonly state = (name: VariableName): State => {
    const { subject, method, protocol } = this.question;
    switch (name) {
      case 'arguments':
      case 'args':
        return this.question.arguments ? 'known' : 'unknown';
      case 'method':
        return method === undefined ? 'unknown' : 'known';
      case 'protocol':
        return protocol === undefined ? 'unknown' : 'known';
      case 'server':
        return subject.server === undefined ? 'unknown' : 'known';
      case 'kind':
        return subject.kind === 'server' ? 'unknown' : 'known';
      case 'a2a.skill':
        if (subject.kind !== 'agent') return subject.kind === 'server' ? 'unknown' : 'absent';
        if (!this.question.arguments) return 'unknown';
        return skillIn(this.question.arguments()) === undefined ? 'absent' : 'known';
      case 'annotations':
        // While the definition of a tool is not known, its annotations are open in a list, and have their defaults in a
        // call.
        if (subject.kind === 'tool' && !subject.definition && !this.question.arguments) return 'unknown';
        return this.ofItem(name);
      case 'mcp.resource':
        // A template stands for many resources.
        if (subject.kind === 'resource' && !this.question.arguments && subject.name.includes('{')) return 'unknown';
        return this.ofItem(name);
      default:
        return this.ofItem(name);
    }
  };

  private ofItem(name: VariableName): State {
    const { subject } = this.question;
    const kinds = ITEM_VARIABLES[name];
    if (!kinds) return 'known';
    if (subject.kind === 'server') return name === 'mcp.server' && subject.server !== undefined ? 'known' : 'unknown';
    return kinds.includes(subject.kind) ? 'known' : 'absent';
  }

  get caller(): CallerVariables {
    return callerVariables(this.question.principal);
  }

  get jwt(): Readonly<Record<string, unknown>> {
    return this.question.principal.claims ?? NO_CLAIMS;
  }

  get server(): string | undefined {
    return this.question.subject.server;
  }

  get tool(): string | undefined {
    const { kind, name } = this.question.subject;
    return kind === 'tool' ? name : undefined;
  }

  get kind(): string {
    return this.question.subject.kind;
  }

  get annotations(): JsonObject {
    return annotationsOf(this.question.subject.definition);
  }

  get protocol(): string | undefined {
    return this.question.protocol;
  }

  get method(): string | undefined {
    return this.question.method;
  }

  get mcp(): McpVariables {
    const { kind, server, name } = this.question.subject;
    const named = (wanted: Subject['kind']): string | undefined => (kind === wanted ? name : undefined);
    return new McpVariables(server, named('tool'), named('prompt'), named('resource'));
  }

  get a2a(): A2aVariables {
    const { kind, name } = this.question.subject;
    return new A2aVariables(kind === 'agent' ? name : undefined, skillIn(this.question.arguments?.()));
  }

  get arguments(): JsonValue {
    return this.question.arguments?.() ?? {};
  }

  get args(): JsonValue {
    return this.arguments;
  }

  get time(): Date {
    return new Date();
  }
}

const NO_CLAIMS: Readonly<Record<string, unknown>> = {};
const callers = new WeakMap<Principal, CallerVariables>();

function callerVariables(principal: Principal): CallerVariables {
  const known = callers.get(principal);
  if (known) return known;
  const { key, subject, issuer, roles, scopes, groups, tenant = '' } = principal;
  const made = new CallerVariables(key, subject, issuer, roles, scopes, groups, tenant);
  callers.set(principal, made);
  return made;
}

const annotated = new WeakMap<JsonObject, JsonObject>();
const UNDECLARED = hintsOf({});

/** The annotations of a tool, with the defaults of the protocol for hints that the tool does not declare. */
function annotationsOf(definition: JsonObject | undefined): JsonObject {
  const { annotations } = definition ?? {};
  if (!isObject(annotations)) return UNDECLARED;
  const known = annotated.get(annotations);
  if (known) return known;
  const made = hintsOf(annotations);
  annotated.set(annotations, made);
  return made;
}

function hintsOf(annotations: JsonObject): JsonObject {
  const readOnly = annotations['readOnlyHint'] === true;
  const hints = { readOnlyHint: false, destructiveHint: !readOnly, idempotentHint: false, openWorldHint: true };
  return { ...hints, ...annotations };
}

/** The skill that a message names in its metadata. */
function skillIn(request: JsonValue | undefined): string | undefined {
  if (!isObject(request)) return undefined;
  const { message, metadata } = request;
  const ofMessage = isObject(message) ? message['metadata'] : undefined;
  const hint = skillHint(isObject(ofMessage) ? ofMessage : undefined, isObject(metadata) ? metadata : undefined);
  return typeof hint === 'string' ? hint : undefined;
}
