import { ProtocolError } from '../protocol/errors.js';
import type { JsonValue } from '../protocol/jsonrpc/raw.js';
import { type Caller, GATEWAY } from './caller.js';

/** One thing of one server or agent that a call is for. */
export interface ItemTarget {
  readonly server: string;
  /** `method`: a method of an extension that only the server knows. `server`: the server as such, in lists and messages. */
  readonly kind: 'tool' | 'prompt' | 'resource' | 'agent' | 'task' | 'method' | 'server';
  /** The target's own name or URI at its server. */
  readonly name: string;
  /** The name a tool is offered under, before any prefix, where it is not its own. */
  readonly offered?: string;
}

/** What the gateway itself answers from what it knows of its servers: lists, descriptions, subscriptions to changes. */
export interface CatalogTarget {
  readonly kind: 'catalog';
  /** The only server it is about; undefined for all that the caller sees. */
  readonly server: string | undefined;
  /** The method that reads it. */
  readonly name: string;
}

export type Target = ItemTarget | CatalogTarget;

/** What a caller wants to do: the action is the method of its protocol, such as `tools/call` or `SendMessage`. */
export interface AdmissionRequest {
  readonly caller: Caller;
  readonly protocol: 'mcp' | 'a2a';
  readonly method: string;
  readonly target: Target;
  /** Parsed when they are read. */
  readonly arguments: JsonValue | undefined;
}

/**
 * May this caller use this target? Asked on every list and again on every call, with the resolved target (S3). Answers
 * that need no waiting come without a promise, so that they cost no turn.
 */
export interface Admission {
  /** Whether the caller may know of the target. Absent where nothing is hidden from anybody. */
  sees?(caller: Caller, target: ItemTarget): boolean | Promise<boolean>;
  /** Throws, or rejects with, the error for the caller. */
  admit(request: AdmissionRequest): void | Promise<void>;
}

type Visibility = Pick<Admission, 'sees'>;

/** Whether nothing is hidden from the caller. The gateway itself knows everything. */
export const seesAll = (admission: Visibility, caller: Caller): boolean =>
  admission.sees === undefined || caller.principal === GATEWAY.principal;

/** Whether the caller may know of the target. */
export const sees = (admission: Visibility, caller: Caller, target: ItemTarget): boolean | Promise<boolean> =>
  seesAll(admission, caller) || (admission.sees?.(caller, target) ?? true);

/** The target that admission is asked to show: tasks and methods of a server are known to those that know the server. */
export const knownBy = (target: ItemTarget): ItemTarget =>
  target.kind === 'task' || target.kind === 'method' ? serverTarget(target.server) : target;

/** Those things that the caller may know of: the list itself where nothing is hidden, and no promise where none is needed. */
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

/** Does the work if the caller may know of the target: at once where nothing is hidden, and not where admission fails. */
export function whereSeen(admission: Visibility, caller: Caller, target: ItemTarget, work: () => void): void {
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

/** The error for an agent that is not there, and for one that the caller may not know of. */
export const unknownAgent = (name: string): ProtocolError =>
  new ProtocolError('agent_not_found', `There is no agent "${name}"`, { outcome: 'not_executed' });

/** Everyone may see everything; tools of servers whose invocation is switched off are not called. */
export class OpenAdmission implements Admission {
  constructor(private readonly callable: (server: string) => boolean) {}

  admit({ target }: AdmissionRequest): void {
    if (target.kind !== 'tool' || this.callable(target.server)) return;
    throw new ProtocolError(
      'tool_invocation_disabled',
      `Tools of server "${target.server}" are not to be called here`,
      {
        outcome: 'not_executed',
        data: { server: target.server },
      },
    );
  }
}
