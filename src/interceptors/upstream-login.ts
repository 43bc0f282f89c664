/** Asks a user to sign in at an upstream where every user has an account, before the user's calls are sent. */
import type { CallContext, CallResult, McpContext } from '../core/call.js';
import type { Caller, Cancellation } from '../core/caller.js';
import { needsLogin, SIGN_IN_MARK, SIGN_IN_TOOL } from '../core/catalog/personal-servers.js';
import { complete, type Outcome } from '../core/gateway.js';
import type { Interceptor, Next } from '../core/pipeline.js';
import type { AccountOf } from '../plugins/call-view.js';
import { ProtocolError } from '../protocol/errors.js';
import { RawObject } from '../protocol/jsonrpc/raw.js';
import { INTERACTIVE_METHODS, isObject } from '../protocol/mcp/model.js';
import { declares } from '../protocol/mcp/translate/questions.js';

/** The sign-ins of users. Upstreams are `server:name` or `agent:name`. */
export interface UpstreamLogins {
  isPersonal(upstream: string): boolean;
  /** Throws, or rejects with, `login_required` if the caller has to sign in first. */
  check(caller: Caller, upstream: string): void | Promise<void>;
  /** Waits until the caller is signed in, at most `ms` milliseconds. */
  arrival(caller: Caller, upstream: string, ms: number, cancellation: Cancellation): Promise<void>;
}

/** The key of the gateway's own question, in the same map as the questions of servers. */
const KEY = 'parley/login';
const UPSTREAMS = ['server', 'agent'] as const;
const URL_ELICITATION = { elicitation: { url: {} } };
/** Milliseconds that a call waits for the end of the sign-in after its user has opened the link. */
const ARRIVAL = 15_000;

/**
 * A call of a user without a token becomes a question with a link, like a server's own URL elicitation, so clients of
 * every revision get it. A client that cannot be asked gets the link in the text of the error. A message of an A2A
 * client becomes a task that waits for the sign-in (`SignInAgent`); other A2A requests get the link in the error.
 */
export function upstreamLogin(logins: UpstreamLogins): Interceptor {
  const guarded = async (context: CallContext, next: Next, upstream: string): Promise<CallResult> => {
    try {
      if (context.protocol === 'mcp') {
        await waitedFor(context, upstream);
        // Checked before the call is sent, so that the gateway starts no task for a call that cannot be sent.
        await logins.check(context.caller, upstream);
      }
      if (isSignIn(context)) return signedIn(context);
      const result = await next(context);
      const error = 'kind' in result && result.kind === 'error' ? result.error : undefined;
      return needsLogin(error) ? asked(context, error as ProtocolError) : result;
    } catch (error) {
      if (!needsLogin(error)) throw error;
      return asked(context, error as ProtocolError);
    }
  };

  /** The user agreed to open the link. Waits a moment for the end of the sign-in. */
  const waitedFor = async (context: CallContext, upstream: string): Promise<void> => {
    if (context.protocol !== 'mcp' || context.call.state?.kind !== 'again') return;
    const { caller, call } = context;
    const answers = call.params.get('inputResponses');
    const answer = isObject(answers) ? answers[KEY] : undefined;
    if (!isObject(answer)) return;
    if (answer['action'] !== 'accept')
      throw new ProtocolError('not_approved', `The user declined to sign in at ${titleOf(upstream)}`, {
        outcome: 'not_executed',
      });
    await logins.arrival(caller, upstream, ARRIVAL, call.cancellation);
  };

  return (context, next) => {
    const { target } = context;
    if (!target || target.kind === 'catalog') return next(context);
    const upstream = personalUpstream(logins, target.server);
    return upstream === undefined ? next(context) : guarded(context, next, upstream);
  };
}

/** An agent is also a server of the catalog, whose tools are its skills. */
const personalUpstream = (logins: Pick<UpstreamLogins, 'isPersonal'>, name: string): string | undefined =>
  UPSTREAMS.map((kind) => `${kind}:${name}`).find((each) => logins.isPersonal(each));

/** The account of a caller at a server. At a server where users sign in, each caller has its own account. */
export function accountsBy(logins: Pick<UpstreamLogins, 'isPersonal'>, accountOf: AccountOf): AccountOf {
  return (principal, server) => {
    const account = accountOf(principal, server);
    const personal = server !== undefined && personalUpstream(logins, server) !== undefined;
    return personal ? JSON.stringify([principal.key, account]) : account;
  };
}

const titleOf = (upstream: string): string => {
  const at = upstream.indexOf(':');
  return `${upstream.slice(0, at)} "${upstream.slice(at + 1)}"`;
};

/** Whether the call is for the tool that the gateway shows until the user has signed in. */
function isSignIn(context: CallContext): context is McpContext {
  if (context.protocol !== 'mcp' || context.target?.kind !== 'tool' || context.target.name !== SIGN_IN_TOOL)
    return false;
  const meta = context.item?.value['_meta'];
  return context.item === undefined || (isObject(meta) && meta[SIGN_IN_MARK] === true);
}

function signedIn({ target }: McpContext): Outcome {
  const server = target?.server ?? '';
  const text = `You are signed in at server "${server}". List the tools again to see the tools of the server.`;
  return complete(RawObject.from({ content: [{ type: 'text', text }] }));
}

function asked(context: CallContext, error: ProtocolError): Outcome {
  const { url, code } = error.detail.data as { url?: unknown; code?: unknown };
  if (typeof url !== 'string') throw error;
  const typed = typeof code === 'string' ? ` and enter the code ${code}` : '';
  if (context.protocol === 'mcp' && canAsk(context)) {
    const { server } = context.target as { server: string };
    const message = `${error.message}. Open the link in a browser${typed}.`;
    return {
      kind: 'input_required',
      inputRequests: { [KEY]: { method: 'elicitation/create', params: { mode: 'url', url, message } } },
      state: { kind: 'again', server, after: [] },
    };
  }
  throw new ProtocolError(
    'login_required',
    `${error.message}. Open this link in a browser${typed}, then repeat the call: ${url}`,
    error.detail,
  );
}

/**
 * A call that its server has already begun is not repeated: its client sends the same request again after the sign-in.
 */
function canAsk({ caller, call }: McpContext): boolean {
  if (call.state && call.state.kind !== 'again' && call.state.kind !== 'approval') return false;
  return INTERACTIVE_METHODS.includes(call.method) && declares(caller.capabilities, URL_ELICITATION);
}
