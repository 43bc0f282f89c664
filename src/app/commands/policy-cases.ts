/** Answers questions about the policy of a configuration, without a running gateway. */
import type { Config } from '../../config/schema.js';
import { ADMIN_ROLE, type Principal, principalOf } from '../../core/caller.js';
import { Failure } from '../../identity/policy/failure.js';
import { type Effect, type ExplainedRule, Policy } from '../../identity/policy/policy.js';
import type { Question, Subject } from '../../identity/policy/policy-question.js';
import { rulesOf } from '../../identity/policy/policy-rule.js';
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';

/** One call to decide about, as an operator writes it. */
export interface PolicyCase {
  readonly name?: string;
  /** The name of a caller, or its properties. */
  readonly caller: JsonValue;
  readonly protocol?: 'mcp' | 'a2a';
  readonly method?: string;
  readonly server?: string;
  readonly tool?: string;
  readonly prompt?: string;
  readonly resource?: string;
  readonly agent?: string;
  readonly annotations?: JsonObject;
  readonly arguments?: JsonObject;
  readonly expect: Effect | 'hidden';
  /** The rule that decides. */
  readonly rule?: string;
}

export interface CaseResult {
  readonly name: string;
  readonly passed: boolean;
  readonly expected: string;
  readonly got: string;
}

/** A case or a question that cannot be read. The message says what to write. */
export class CaseError extends Error {}

/** The result of a question about one call. */
export interface Explanation {
  readonly effect: Effect;
  /** The rule that decided; null if no rule matched. */
  readonly rule: string | null;
  /** Whether the caller sees the target in lists. */
  readonly visible: boolean;
  /** Whether the rules are in effect: there is at least one, and the mode is `enforce`. */
  readonly enforced: boolean;
  readonly rules: readonly { name: string; effect: Effect; matches: string; decides: boolean; parts: object[] }[];
}

export class PolicyCases {
  private readonly policy: Policy;

  constructor(private readonly config: Config) {
    this.policy = new Policy(rulesOf(config.policy.rules));
  }

  explain(asked: Omit<PolicyCase, 'expect'>): Explanation {
    const question = this.questionOf(asked);
    const { decision, rules } = this.policy.explain(question);
    const none = this.policy.rules.length === 0;
    return {
      effect: none ? 'allow' : decision.effect,
      rule: decision.rule?.name ?? null,
      visible: none || this.visible(question),
      enforced: !none && this.config.policy.mode === 'enforce',
      rules: rules.map(explained),
    };
  }

  /** Runs the cases of a file. Throws `CaseError` for a case that cannot be read. */
  test(cases: readonly unknown[]): CaseResult[] {
    return cases.map((written, index) => this.run(caseOf(written, index), index));
  }

  private run(written: PolicyCase, index: number): CaseResult {
    const { effect, rule, visible } = this.explain(written);
    const got = written.expect === 'hidden' && !visible ? 'hidden' : effect;
    const rightRule = written.rule === undefined || written.rule === (rule ?? '');
    const by = (name: string | null | undefined): string => (name ? ` by "${name}"` : '');
    return {
      name: written.name ?? `case ${index + 1}`,
      passed: got === written.expect && rightRule,
      expected: `${written.expect}${by(written.rule)}`,
      got: `${got}${by(rule)}`,
    };
  }

  private visible(question: Question): boolean {
    const { arguments: _, ...open } = question;
    return this.policy.couldBe(open).effect !== 'deny';
  }

  private questionOf(asked: Omit<PolicyCase, 'expect'>): Question {
    const subject = this.subjectOf(asked);
    const protocol = asked.protocol ?? (subject.kind === 'agent' ? 'a2a' : 'mcp');
    const method = asked.method ?? METHODS[subject.kind];
    const args = asked.arguments ?? {};
    return { principal: this.principalOf(asked.caller), protocol, method, subject, arguments: () => args };
  }

  private subjectOf({ server, tool, prompt, resource, agent, annotations }: Omit<PolicyCase, 'expect'>): Subject {
    if (agent !== undefined) return { kind: 'agent', server: agent, name: agent };
    const [own, name] = server === undefined && tool !== undefined ? this.split(tool) : [server, tool];
    if (own === undefined) throw new CaseError('needs a server, or an agent');
    if (name !== undefined)
      return { kind: 'tool', server: own, name, ...(annotations && { definition: { annotations } }) };
    if (prompt !== undefined) return { kind: 'prompt', server: own, name: prompt };
    if (resource !== undefined) return { kind: 'resource', server: own, name: resource };
    throw new CaseError('needs a tool, a prompt, a resource or an agent');
  }

  /** Splits the name of a tool as the gateway lists it, such as `weather__forecast`. */
  private split(listed: string): [server: string, tool: string] {
    const { servers, agents, naming } = this.config;
    for (const separator of [naming.separator, '/', '.']) {
      for (const server of [...Object.keys(servers), ...Object.keys(agents)].sort((a, b) => b.length - a.length))
        if (listed.startsWith(`${server}${separator}`)) return [server, listed.slice(server.length + separator.length)];
    }
    const example = `${Object.keys(servers)[0] ?? 'weather'}${naming.separator}TOOL`;
    throw new CaseError(`${JSON.stringify(listed)} names no configured server; write it like ${example}`);
  }

  private principalOf(caller: JsonValue): Principal {
    if (typeof caller === 'string') {
      const known = this.config.auth.tokens.find(({ name }) => name === caller);
      return principalOf({ subject: caller, roles: known?.admin ? [ADMIN_ROLE] : [] });
    }
    if (!isObject(caller) || typeof caller['subject'] !== 'string')
      throw new CaseError('needs a caller: a name, or { subject: …, roles: […], groups: […], claims: {…} }');
    const texts = (key: string): string[] => (Array.isArray(caller[key]) ? (caller[key] as unknown[]).map(String) : []);
    const { subject, issuer, tenant, claims } = caller;
    return principalOf({
      ...{ subject, roles: texts('roles'), scopes: texts('scopes'), groups: texts('groups') },
      ...(typeof issuer === 'string' && { issuer }),
      ...(typeof tenant === 'string' && { tenant }),
      ...(isObject(claims) && { claims }),
    });
  }
}

const METHODS: Readonly<Record<Subject['kind'], string>> = {
  tool: 'tools/call',
  prompt: 'prompts/get',
  resource: 'resources/read',
  agent: 'SendMessage',
  method: '',
  server: '',
};

function explained({ name, effect, value, decides, parts }: ExplainedRule): Explanation['rules'][number] {
  return {
    ...{ name, effect, matches: shown(value), decides },
    parts: parts.map((part) => ({ text: part.text, value: shown(part.value) })),
  };
}

/** A value as people read it. */
function shown(value: unknown): string {
  if (value instanceof Failure) return `fails: ${value.message}`;
  if (value === 'absent' || (typeof value === 'symbol' && value.description === 'absent'))
    return 'does not apply to this kind of target';
  return String(value);
}

const EXPECTED: readonly unknown[] = ['allow', 'deny', 'approve', 'hidden'];
const KEYS: ReadonlySet<string> = new Set<keyof PolicyCase>([
  ...(['name', 'caller', 'protocol', 'method', 'server', 'tool', 'prompt', 'resource', 'agent'] as const),
  ...(['annotations', 'arguments', 'expect', 'rule'] as const),
]);

function caseOf(written: unknown, index: number): PolicyCase {
  const wrong = (what: string): CaseError => new CaseError(`case ${index + 1} ${what}`);
  if (!isObject(written as JsonValue)) throw wrong('is not a map');
  const given = written as Record<string, unknown>;
  const unknown = Object.keys(given).find((key) => !KEYS.has(key));
  if (unknown !== undefined) throw wrong(`has an unknown key "${unknown}"; the keys are ${[...KEYS].join(', ')}`);
  if (!EXPECTED.includes(given['expect'])) throw wrong('needs expect: allow, deny, approve or hidden');
  for (const key of ['name', 'protocol', 'method', 'server', 'tool', 'prompt', 'resource', 'agent', 'rule'])
    if (given[key] !== undefined && typeof given[key] !== 'string') throw wrong(`has a ${key} that is not a text`);
  for (const key of ['arguments', 'annotations'])
    if (given[key] !== undefined && !isObject(given[key] as JsonValue)) throw wrong(`has ${key} that is not a map`);
  return given as unknown as PolicyCase;
}
