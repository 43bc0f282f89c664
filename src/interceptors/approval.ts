import { randomUUID } from 'node:crypto';
import type { ItemTarget } from '../core/admission.js';
import type { CallResult, McpContext } from '../core/call.js';
import { globOf } from '../core/catalog/glob.js';
import { spellingsOf } from '../core/catalog/names.js';
import type { Call, Outcome } from '../core/gateway.js';
import type { Interceptor, Next } from '../core/pipeline.js';
import { ProtocolError } from '../protocol/errors.js';
import { type InputRequest, isObject } from '../protocol/mcp/model.js';
import { declares } from '../protocol/mcp/translate/questions.js';

export interface ApprovalPolicy {
  /** Names of tools; `*` stands for any characters. */
  readonly tools: readonly string[];
  /** Whether every tool that declares itself destructive also needs an approval. */
  readonly destructive: boolean;
  /** The rule that demands approval of this admitted call; undefined if no rule does. Absent if there are no rules. */
  readonly required?: (request: McpContext & { readonly target: ItemTarget }) => string | undefined;
}

/** Used approvals: each counts once, across replicas and restarts. */
export interface UsedApprovals {
  /**
   * Returns true for the first use. The use is stored for at least `ttl` milliseconds. Rejects if too many uses of the
   * principal are stored.
   */
  spend(id: string, principal: string, ttl: number): Promise<boolean>;
}

/** The key of the gateway's own question, in the same map as the questions of servers. */
const KEY = 'parley/approval';
const FORM = { elicitation: { form: {} } };

/**
 * Asks a person before a tool runs. The question is sent like any question of a server, so clients of every revision
 * get it. A client that cannot be asked is refused with the reason.
 */
export function approval(
  policy: ApprovalPolicy,
  /** The lifetime of an approval, in milliseconds. */
  ttl: number,
  used: UsedApprovals,
): Interceptor | undefined {
  if (policy.tools.length === 0 && !policy.destructive && !policy.required) return undefined;
  const patterns = policy.tools.map(globOf);

  /** The rule that demands an approval, as the audit trail names it. */
  const demanding = (context: McpContext, target: ItemTarget): string | undefined =>
    policy.required?.(context as McpContext & { readonly target: ItemTarget }) ??
    (needed(context, target) ? 'policy.approve' : undefined);

  const needed = ({ call, item }: McpContext, target: ItemTarget): boolean => {
    if (patterns.length === 0 && !policy.destructive) return false;
    const { server, name, offered = name } = target;
    // A rule names the tool by any of its names, so the approval is also needed at an endpoint that shows another name.
    const asked = String(call.params.get('name'));
    const spellings = [asked, ...[name, offered].flatMap((each) => spellingsOf(server, each))];
    if (patterns.some((pattern) => spellings.some((spelling) => pattern.test(spelling)))) return true;
    if (!policy.destructive) return false;
    // A tool without a known definition may be destructive.
    if (!item) return true;
    const { annotations } = item.value;
    return isObject(annotations) && annotations['destructiveHint'] === true;
  };

  const ask = ({ caller, call, notes }: McpContext, { server, name }: ItemTarget, rule: string): Outcome => {
    if (!declares(caller.capabilities, FORM)) {
      notes.decision = { decision: 'denied', rule };
      throw new ProtocolError(
        'not_approved',
        `Tool "${name}" of server "${server}" needs a person's approval, and this client cannot ask for it (it does not declare elicitation)`,
        {
          outcome: 'not_executed',
          data: { policy: 'approve', requiredCapabilities: FORM },
        },
      );
    }
    notes.decision = { decision: 'asked', rule };
    return {
      kind: 'input_required',
      inputRequests: { [KEY]: question(server, name, call) },
      state: { kind: 'approval', nonce: randomUUID(), server, tool: name },
    };
  };

  /** Uses the approval before the call continues, so a call that fails afterwards cannot use it again. */
  const spend = async (id: string, context: McpContext, next: Next, rule: string): Promise<CallResult> => {
    if (await used.spend(id, context.caller.principal.key, ttl)) {
      context.notes.decision = { decision: 'approved', rule, by: context.caller.principal.key };
      return goOn(context, next);
    }
    throw new ProtocolError(
      'invalid_state',
      'This approval was used already; repeat the call without it to be asked again',
    );
  };

  return (context, next) => {
    const { target } = context;
    if (context.protocol !== 'mcp' || target?.kind !== 'tool') return next(context);
    const rule = demanding(context, target);
    if (rule === undefined) return next(context);
    const { call } = context;
    const { state } = call;
    if (!state) return ask(context, target, rule);
    // A parked call runs already. The client's ticket for it is valid for one answer.
    if (state.kind === 'parked') return goOn(context, next);
    if (state.kind !== 'approval') {
      // A state that was issued before the tool needed approval contains no approval.
      return state.approval === undefined ? ask(context, target, rule) : spend(state.approval, context, next, rule);
    }
    if (state.server !== target.server || state.tool !== target.name)
      throw new ProtocolError('invalid_state', 'This approval is for another tool');
    const answers = call.params.get('inputResponses');
    const answer = isObject(answers) ? answers[KEY] : undefined;
    if (!isObject(answer)) return ask(context, target, rule);
    const content = answer['content'];
    if (answer['action'] !== 'accept' || !isObject(content) || content['approve'] !== true) {
      context.notes.decision = { decision: 'denied', rule, by: context.caller.principal.key };
      throw new ProtocolError('not_approved', `The call of tool "${target.name}" was not approved`, {
        outcome: 'not_executed',
        data: { policy: 'approve' },
      });
    }
    return spend(state.nonce, context, next, rule);
  };
}

/**
 * Continues an approved call. If the server asks a question, the approval also covers the next round of the call, once.
 */
function goOn(context: McpContext, next: Next): CallResult | Promise<CallResult> {
  const result = next(context);
  return result instanceof Promise ? result.then(onceMore) : onceMore(result);
}

function onceMore(result: CallResult): CallResult {
  if (!('kind' in result) || result.kind !== 'input_required') return result;
  const { state } = result as Extract<Outcome, { kind: 'input_required' }>;
  if (state?.kind !== 'relay' && state?.kind !== 'again') return result;
  return { ...result, state: { ...state, approval: randomUUID() } } as CallResult;
}

const SHOWN = 2_000;

function question(server: string, own: string, call: Call): InputRequest {
  const args = call.params.raw('arguments')?.toString('utf8') ?? '{}';
  const shown = args.length > SHOWN ? `${args.slice(0, SHOWN)} … (${args.length} characters in all)` : args;
  return {
    method: 'elicitation/create',
    params: {
      mode: 'form',
      message: `Allow the call of tool "${own}" on server "${server}" with these arguments?\n${shown}`,
      requestedSchema: {
        type: 'object',
        properties: { approve: { type: 'boolean', title: 'Allow this call', default: true } },
        required: ['approve'],
      },
    },
  };
}
