import { ProtocolError } from '../protocol/errors.js';
import type { JsonValue } from '../protocol/jsonrpc/raw.js';
import { type Caller, GATEWAY } from './caller.js';

/** The item of a server or agent that a call targets. */
export interface ItemTarget {
  readonly server: string;
  /**
   * `method`: a method of an extension that only the server knows. `server`: the server itself, in lists and messages.
   */
  readonly kind: 'tool' | 'prompt' | 'resource' | 'agent' | 'task' | 'method' | 'server';
  /** The name or URI that the server gives the target. */
  readonly name: string;
  /** The configured name of a tool, before any prefix, where it differs from the server's own name. */
  readonly offered?: string;
}

/** A target that the gateway answers itself: lists, descriptions, subscriptions to changes. */
export interface CatalogTarget {
  readonly kind: 'catalog';
  /** The only server that the answer covers; undefined for all servers that the caller sees. */
  readonly server: string | undefined;
  /** The MCP method. */
  readonly name: string;
}

export type Target = ItemTarget | CatalogTarget;

/** A request for permission. `method` is the method of the caller's protocol, such as `tools/call` or `SendMessage`. */
export interface AdmissionRequest {
  readonly caller: Caller;
  readonly protocol: 'mcp' | 'a2a';
  readonly method: string;
  readonly target: Target;
  /** Parsed on first read. */
  readonly arguments: JsonValue | undefined;
}

/**
 * Decides whether a caller may use a target. Every list and every call asks, with the resolved target (S3). A
 * synchronous decision returns no promise, so that it adds no event-loop turn.
 */
export interface Admission {
  /** Whether the caller may know that the target exists. Absent if nothing is hidden from any caller. */
  sees?(caller: Caller, target: ItemTarget): boolean | Promise<boolean>;
  /** Throws, or rejects with, the error that the caller receives. */
  admit(request: AdmissionRequest): void | Promise<void>;
}

type Visibility = Pick<Admission, 'sees'>;

/** Whether the caller sees every target. The gateway itself does. */
export const seesAll = (admission: Visibility, caller: Caller): boolean =>
  admission.sees === undefined || caller.principal === GATEWAY.principal;

/** Whether the caller may know that the target exists. */
export const sees = (admission: Visibility, caller: Caller, target: ItemTarget): boolean | Promise<boolean> =>
  seesAll(admission, caller) || (admission.sees?.(caller, target) ?? true);

/** The target to pass to `sees`: a caller that sees a server also sees the tasks and methods of that server. */
export const knownBy = (target: ItemTarget): ItemTarget =>
  target.kind === 'task' || target.kind === 'method' ? serverTarget(target.server) : target;

/**
 * The items that the caller sees. Returns the same list if nothing is hidden, and a promise only if a decision is
 * asynchronous.
 */
export function visible<T>(
  admission: Visibility,
  caller: Caller,
  things: readonly T[],
  targetOf: (thing: T) => ItemTarget,
): readonly T[] | Promise<readonly T[]> {
  if (things.length === 0 || seesAll(admission, caller)) return things;
  const answers = things.map((thing) => sees(admission, caller, targetOf(thing)));
  const chosen = (seen: readonly boolean[]): readonly T[] =>
    seen.includes(false) ? things.filter((_, index) => seen[index]) : things;
  return answers.some((answer) => answer instanceof Promise)
    ? Promise.all(answers).then(chosen)
    : chosen(answers as boolean[]);
}

/** Runs `work` if the caller sees the target: synchronously if nothing is hidden, and never if the decision fails. */
export function ifVisible(admission: Visibility, caller: Caller, target: ItemTarget, work: () => void): void {
  if (seesAll(admission, caller)) {
    work();
    return;
  }
  void Promise.resolve()
    .then(() => sees(admission, caller, target))
    .catch(() => false)
    .then((seen) => {
      if (seen) work();
    });
}

export const agentTarget = (name: string): ItemTarget => ({ server: name, kind: 'agent', name });
export const serverTarget = (name: string): ItemTarget => ({ server: name, kind: 'server', name });

/** The same error for an agent that does not exist and for one that the caller may not see. */
export const unknownAgent = (name: string): ProtocolError =>
  new ProtocolError('agent_not_found', `There is no agent "${name}"`, { outcome: 'not_executed' });

/** Every caller sees every target. Calls to tools are refused for servers whose invocation is switched off. */
export class OpenAdmission implements Admission {
  constructor(private readonly callable: (server: string) => boolean) {}

  admit({ target }: AdmissionRequest): void {
    if (target.kind !== 'tool' || this.callable(target.server)) return;
    throw new ProtocolError(
      'tool_invocation_disabled',
      `Calls to tools of server "${target.server}" are disabled by the configuration of this gateway`,
      {
        outcome: 'not_executed',
        data: { server: target.server },
      },
    );
  }
}
