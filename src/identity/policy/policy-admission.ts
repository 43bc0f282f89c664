import { absentTarget } from '../../core/absent-target.js';
import type { Admission, AdmissionRequest, ItemTarget } from '../../core/admission.js';
import type { CallNotes } from '../../core/audit-trail.js';
import { type Caller, GATEWAY, type Principal } from '../../core/caller.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { Log } from '../../telemetry/log.js';
import { type Decision, type OnFailure, Policy, type Rule } from './policy.js';
import { type Question, questionOf, visibilityOf } from './policy-question.js';
import { rulesOf, type WrittenRule } from './policy-rule.js';
import { Throttled } from './throttled.js';

export interface PolicySettings {
  readonly rules: readonly WrittenRule[];
  readonly mode: 'enforce' | 'dry-run';
  /** Proposed rules that are only compared with the rules in effect. */
  readonly proposed: readonly WrittenRule[];
}

export interface PolicyAdmissionOptions {
  readonly settings: PolicySettings;
  readonly log: Log;
  /**
   * Whether some item of a server, as the principal has it, passes the test. A promise while the gateway reads the
   * lists of the server.
   */
  readonly someItem: (
    principal: Principal,
    server: string,
    test: (target: ItemTarget) => boolean,
  ) => boolean | Promise<boolean>;
}

/** Without any rule everything is allowed. */
const OPEN: Decision = { effect: 'allow', rule: undefined };
/** The rule in log lines about calls that no rule matches. */
const DEFAULT = '(no rule matches)';
/** How long the visibility of a server is remembered if it depends on the server's items, in milliseconds. */
const SERVER_AGE = 500;

/**
 * Asks the policy on every list and every call, with the resolved target (S3). A target that the caller could never use
 * is hidden from the caller, and a call to it gets the error of an absent target.
 */
export class PolicyAdmission implements Admission {
  private enforced: Policy | undefined;
  private proposed: Policy | undefined;
  private servers = new WeakMap<Principal, Map<string, { readonly at: number; readonly seen: boolean }>>();
  private readonly reports = new Throttled();

  constructor(private readonly options: PolicyAdmissionOptions) {
    this.configure(options.settings);
  }

  /** Replaces the rules. */
  configure({ rules, mode, proposed }: PolicySettings): void {
    const policyOf = (written: readonly WrittenRule[]): Policy | undefined =>
      written.length > 0 ? new Policy(rulesOf(written), this.failed) : undefined;
    this.enforced = mode === 'enforce' ? policyOf(rules) : undefined;
    this.proposed = policyOf(mode === 'enforce' ? proposed : rules);
    this.servers = new WeakMap();
  }

  seesEverything(): boolean {
    return this.enforced === undefined;
  }

  sees({ principal }: Caller, target: ItemTarget): boolean | Promise<boolean> {
    const { enforced } = this;
    if (!enforced || principal === GATEWAY.principal) return true;
    const { effect, partly } = enforced.couldBe(visibilityOf(principal, target));
    if (effect === 'deny') return false;
    // The rule that allows may be about items that this server does not have.
    return target.kind === 'server' && partly === true ? this.seesServer(enforced, principal, target.server) : true;
  }

  hiddenBy({ principal }: Caller, target: ItemTarget): string | undefined {
    const { enforced } = this;
    if (!enforced || principal === GATEWAY.principal) return undefined;
    const { effect, rule, partly } = enforced.couldBe(visibilityOf(principal, target));
    if (effect === 'deny') return rule?.name ?? DEFAULT;
    // The last look at the items of this server found none that a rule shows.
    const isEmpty = target.kind === 'server' && this.servers.get(principal)?.get(target.server)?.seen === false;
    return partly === true && isEmpty ? DEFAULT : undefined;
  }

  /** Whether the caller sees some item of the server. */
  private seesServer(policy: Policy, principal: Principal, server: string): boolean | Promise<boolean> {
    const { servers } = this;
    let known = servers.get(principal);
    if (!known) {
      known = new Map();
      servers.set(principal, known);
    }
    const last = known.get(server);
    const now = performance.now();
    if (last && now - last.at < SERVER_AGE) return last.seen;
    const note = (seen: boolean): boolean => {
      known.set(server, { at: now, seen });
      return seen;
    };
    const found = this.options.someItem(
      principal,
      server,
      (item) => policy.couldBe(visibilityOf(principal, item)).effect !== 'deny',
    );
    return found instanceof Promise ? found.then(note) : note(found);
  }

  admit(request: AdmissionRequest): void {
    const { enforced, proposed } = this;
    if (!enforced && !proposed) return;
    const decision = decisionOf(enforced, request);
    if (proposed) this.compare(request, decision, decisionOf(proposed, request));
    const { effect } = decision;
    const refused = effect === 'deny' || (effect === 'approve' && !canAsk(request));
    if (request.notes && enforced) request.notes.decision = noteOf(decision, refused);
    if (effect === 'deny') throw this.refusal(request, decision);
    if (refused) throw notAskable(request);
  }

  /** The name of the rule that demands the approval of a person for this call; undefined if no rule does. */
  approvalRule(request: AdmissionRequest): string | undefined {
    const decision = this.enforced && decisionOf(this.enforced, request);
    return decision?.effect === 'approve' ? decision.rule?.name : undefined;
  }

  private refusal(request: AdmissionRequest, { rule }: Decision): ProtocolError {
    const { caller, method, target, item } = request;
    if (this.reports.due(`deny ${callKey(request)}`)) {
      const fields = { ...described(request), rule: rule?.name ?? DEFAULT };
      this.options.log.info(fields, 'the policy denied a call');
    }
    const denied = new ProtocolError('policy_denied', 'The policy of this gateway does not allow this call', {
      outcome: 'not_executed',
    });
    if (target.kind === 'catalog') return denied;
    if (target.kind === 'method' || target.kind === 'task') return absentTarget(method, target);
    const shown = item ? { ...target, definition: item.value } : target;
    return this.sees(caller, shown) === true ? denied : absentTarget(method, target);
  }

  private compare(request: AdmissionRequest, now: Decision, then: Decision): void {
    if (now.effect === then.effect) return;
    const rule = then.rule?.name ?? DEFAULT;
    if (!this.reports.due(`dry ${callKey(request)} ${rule}`)) return;
    const fields = { ...described(request), rule, now: now.effect, would: then.effect };
    this.options.log.info(fields, 'dry run: the proposed policy decides differently');
  }

  private readonly failed: OnFailure = ({ name: rule, effect }, { message: why }, { key: caller }) => {
    if (!this.reports.due(`failed ${rule} ${caller}`)) return;
    const counted = effect === 'allow' ? 'no match' : effect === 'deny' ? 'a match' : 'a need for approval';
    const fields = { rule, effect, caller, why: why.slice(0, MOST_LOGGED) };
    this.options.log.warn(fields, `a policy rule failed and counted as ${counted}`);
  };
}

type Note = NonNullable<CallNotes['decision']>;

/** The notes about a rule are made once and cached, because every call needs them. */
const notes = new WeakMap<Rule, { readonly allowed: Note; readonly denied: Note }>();
const OPEN_NOTE: Note = { decision: 'allowed' };
const DEFAULT_NOTE: Note = { decision: 'denied', rule: DEFAULT };

/** The decision as the audit trail names it. If a person approves the call, `approved` replaces this decision. */
function noteOf({ rule }: Decision, refused: boolean): Note {
  if (!rule) return refused ? DEFAULT_NOTE : OPEN_NOTE;
  let made = notes.get(rule);
  if (!made) {
    made = { allowed: { decision: 'allowed', rule: rule.name }, denied: { decision: 'denied', rule: rule.name } };
    notes.set(rule, made);
  }
  return refused ? made.denied : made.allowed;
}

/** The decision about a call; without rules everything is allowed. */
function decisionOf(policy: Policy | undefined, request: AdmissionRequest): Decision {
  if (!policy) return OPEN;
  const { target } = request;
  const question = questionOf(request, target);
  if (target.kind === 'catalog') return policy.refusesMethod(question) ?? OPEN;
  return target.kind === 'task' || target.kind === 'server' ? onTask(policy, question) : policy.decide(question);
}

/**
 * A caller may use its task if it could call the tool that created the task. The arguments of that call are no longer
 * known. Rules may also deny a method of tasks by its name.
 */
function onTask(policy: Policy, question: Question): Decision {
  const now = policy.couldBe(question);
  if (now.effect !== 'deny' || now.rule?.when.reads.has('method')) return now;
  return policy.couldBe({ ...question, method: 'tools/call' });
}

/**
 * Only a tool call can ask its client. A call within another call, or about a task, belongs to a call that was approved
 * before.
 */
const canAsk = ({ target, call }: AdmissionRequest): boolean =>
  target.kind === 'tool' || target.kind === 'task' || call?.nested === true;

const notAskable = ({ method }: AdmissionRequest): ProtocolError =>
  new ProtocolError('not_approved', `${method} needs a person's approval, which only tool calls over MCP can ask for`, {
    outcome: 'not_executed',
    data: { policy: 'approve' },
  });

const MOST_LOGGED = 200;

const callKey = ({ caller, method, target }: AdmissionRequest): string =>
  `${caller.principal.key} ${method} ${target.server} ${target.name.slice(0, MOST_LOGGED)}`;

function described({ caller, protocol, method, target }: AdmissionRequest): object {
  const { kind, server, name } = target;
  const named = kind === 'tool' || kind === 'prompt' || kind === 'agent';
  return { caller: caller.principal.key, protocol, method, server, ...(named && { [kind]: name }) };
}
