import { randomUUID } from 'node:crypto';
import type { Caller } from '../core/caller.js';
import type { Catalog } from '../core/catalog/catalog.js';
import { globOf } from '../core/catalog/glob.js';
import { prefixedName } from '../core/catalog/names.js';
import { type Call, failed, type Gateway, type Outcome } from '../core/gateway.js';
import { ProtocolError } from '../protocol/errors.js';
import { type InputRequest, isObject } from '../protocol/mcp/model.js';
import { declares } from '../protocol/mcp/project/input.js';

export interface ApprovalPolicy {
  /** Names of tools, `*` standing for any characters. */
  readonly tools: readonly string[];
  /** Every tool that says it destroys something. */
  readonly destructive: boolean;
}

/** Approvals that were used: each counts once, across replicas and restarts. */
export interface UsedApprovals {
  /** True for the first use. The use is remembered for `ttl` milliseconds at least. */
  spend(id: string, ttl: number): Promise<boolean>;
}

/** A tool by its server, the name it is offered under, and its own. */
interface Tool {
  readonly server: string;
  readonly offered: string;
  readonly own: string;
}

/** The key of the gateway's own question among those of servers. */
const KEY = 'parley/approval';
const FORM = { elicitation: { form: {} } };

/**
 * Asks a person before a tool runs. The question goes the way every question goes, so it reaches clients of every
 * revision; who cannot be asked is refused, with the reason.
 */
export function withApproval(
  inner: Gateway,
  policy: ApprovalPolicy,
  catalog: Catalog,
  /** How long an approval is good, in milliseconds. */
  ttl: number,
  used: UsedApprovals,
): Gateway {
  if (policy.tools.length === 0 && !policy.destructive) return inner;
  const patterns = policy.tools.map(globOf);

  const needs = async (caller: Caller, call: Call): Promise<Tool | undefined> => {
    const name = call.params.get('name');
    if (call.method !== 'tools/call' || typeof name !== 'string') return undefined;
    const set = catalog.setOf(caller, call.view);
    const { server, name: offered } = await catalog.resolve(call.view, name, 'tools/list', set);
    const known = catalog.knownTool(server, offered, set);
    const target: Tool = { server, offered, own: known?.own ?? catalog.ownTool(server, offered) };
    const spellings = [name, ...spellingsOf(target)];
    if (patterns.some((pattern) => spellings.some((spelling) => pattern.test(spelling)))) return target;
    if (!policy.destructive) return undefined;
    const tool = known ?? (await catalog.tool(server, offered, set));
    // A tool whose description cannot be had may be destructive.
    if (!tool) return target;
    const { annotations } = tool.value;
    return isObject(annotations) && annotations['destructiveHint'] === true ? target : undefined;
  };

  const ask = (caller: Caller, call: Call, { server, own }: Tool): Outcome => {
    if (!declares(caller.capabilities, FORM)) {
      return failed(
        new ProtocolError(
          'not_approved',
          `Tool "${own}" of server "${server}" needs a person's approval, and this client cannot ask for it (it does not declare elicitation)`,
          {
            outcome: 'not_executed',
            data: { policy: 'approve', requiredCapabilities: FORM },
          },
        ),
      );
    }
    return {
      kind: 'input_required',
      inputRequests: { [KEY]: question(server, own, call) },
      state: { kind: 'approval', nonce: randomUUID() },
    };
  };

  return {
    listen: (...args) => inner.listen(...args),
    call: async (caller, call) => {
      try {
        const target = await needs(caller, call);
        if (!target) return await inner.call(caller, call);
        const { state } = call;
        if (!state) return ask(caller, call, target);
        // Any other state was given out after an approval, for this very call.
        if (state.kind !== 'approval') return await inner.call(caller, call);
        const answers = call.params.get('inputResponses');
        const answer = isObject(answers) ? answers[KEY] : undefined;
        if (!isObject(answer)) return ask(caller, call, target);
        const content = answer['content'];
        if (answer['action'] !== 'accept' || (isObject(content) && content['approve'] === false)) {
          return failed(
            new ProtocolError('not_approved', `The call of "${target.own}" was not approved`, {
              outcome: 'not_executed',
              data: { policy: 'approve' },
            }),
          );
        }
        // Before the call goes on: a call that fails afterwards has used its approval.
        if (!(await used.spend(state.nonce, ttl))) {
          throw new ProtocolError(
            'invalid_state',
            'This approval was used already: make the call anew to be asked again',
          );
        }
        return await inner.call(caller, call);
      } catch (error) {
        if (error instanceof ProtocolError) return failed(error);
        throw error;
      }
    },
  };
}

/** Every name the tool goes by: a door that shows it under another one must not lead around the question. */
const spellingsOf = ({ server, own, offered }: Tool): string[] =>
  [own, offered].flatMap((name) => [
    name,
    ...['__', '.', '-'].flatMap((mark) => [`${server}${mark}${name}`, prefixedName(server, name, mark)]),
  ]);

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
