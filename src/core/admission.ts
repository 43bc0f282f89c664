import { ProtocolError } from '../protocol/errors.js';
import type { JsonObject, JsonValue } from '../protocol/jsonrpc/raw.js';
import type { CallNotes } from './audit-trail.js';
import { type Caller, GATEWAY } from './caller.js';
import { mapInSlices } from './time-slices.js';

/** The item of a server or agent that a call targets. */
export interface ItemTarget {
  readonly server: string;
  /** `method`: a method of an extension that only the server knows. `server`: the server as a whole. */
  readonly kind: 'tool' | 'prompt' | 'resource' | 'agent' | 'task' | 'method' | 'server';
  /** The name or URI that the server gives the target. */
  readonly name: string;
  /** The configured name of a tool, before any prefix, where it differs from the server's own name. */
  readonly offered?: string;
  /** The tool as its server lists it, if known. Present only in targets that are passed to `sees`. */
  readonly definition?: JsonObject;
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
  /** The arguments of the call, parsed on first read. */
  readonly arguments: JsonValue | undefined;
  /** The tool as its server lists it, if known. */
  readonly item?: { readonly value: JsonObject } | undefined;
  /**
   * `nested`: the call is part of an outer call of the same caller, and the outer call has already passed the
   * interceptors.
   */
  readonly call?: { readonly nested?: true };
  /** The admission writes its decision and the rule here, for the audit trail. */
  readonly notes?: CallNotes;
}

/**
 * Decides whether a caller may use a target. Every list and every call asks for a decision about the resolved target
 * (S3). A synchronous decision returns no promise, because a promise would add an event-loop turn.
 */
export interface Admission {
  /** Whether the caller may know that the target exists. Absent if nothing is hidden from any caller. */
  sees?(caller: Caller, target: ItemTarget): boolean | Promise<boolean>;
  /** Whether `sees` is true for every target; the decision per target is then skipped. If absent, this is not known. */
  seesEverything?(caller: Caller): boolean;
  /** The rule that hides the target from the caller, for the audit trail; undefined if none does. */
  hiddenBy?(caller: Caller, target: ItemTarget): string | undefined;
  /** Throws, or rejects with, the error that the caller receives. */
  admit(request: AdmissionRequest): void | Promise<void>;
}

type Visibility = Pick<Admission, 'sees' | 'seesEverything'>;

/** Whether the caller sees every target. The gateway itself sees every target. */
export const seesAll = (admission: Visibility, caller: Caller): boolean =>
  admission.sees === undefined ||
  caller.principal === GATEWAY.principal ||
  (admission.seesEverything?.(caller) ?? false);

/** Whether the caller may know that the target exists. */
export const sees = (admission: Visibility, caller: Caller, target: ItemTarget): boolean | Promise<boolean> =>
  seesAll(admission, caller) || (admission.sees?.(caller, target) ?? true);

/** The target to pass to `sees`: a caller that sees a server also sees the tasks and methods of that server. */
export const knownBy = (target: ItemTarget): ItemTarget =>
  target.kind === 'task' || target.kind === 'method' ? serverTarget(target.server) : target;

/**
 * The items that the caller sees. Returns the same list if nothing is hidden. Returns a promise only if a decision is
 * asynchronous, or if the list is long: other calls then run between two slices of the list.
 */
export function visible<T>(
  admission: Visibility,
  caller: Caller,
  things: readonly T[],
  targetOf: (thing: T) => ItemTarget,
): readonly T[] | Promise<readonly T[]> {
  if (things.length === 0 || seesAll(admission, caller)) return things;
  const chosen = (seen: readonly boolean[]): readonly T[] =>
    seen.includes(false) ? things.filter((_, index) => seen[index]) : things;
  const answers = mapInSlices(things, (thing) => sees(admission, caller, targetOf(thing)));
  if (answers instanceof Promise) return answers.then((given) => Promise.all(given)).then(chosen);
  return answers.some((answer) => answer instanceof Promise)
    ? Promise.all(answers).then(chosen)
    : chosen(answers as boolean[]);
}

/**
 * Runs `work` if the caller sees the target. Runs it synchronously if nothing is hidden. A failed decision hides the
 * target.
 */
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

/**
 * Combines admissions: a caller sees a target if all of them show it, and may use it if none of them refuses. The
 * admissions are asked in order, and the first refusal is the answer.
 */
export function allAdmissions(admissions: readonly Admission[]): Admission {
  const [only, ...others] = admissions;
  if (only && others.length === 0) return only;
  const hiding = admissions.filter((each) => each.sees !== undefined);
  return {
    admit: (request) => admitFrom(admissions, 0, request),
    ...(hiding.length > 0 && {
      sees: (caller: Caller, target: ItemTarget) => seesFrom(hiding, 0, caller, target),
      seesEverything: (caller: Caller) => hiding.every((each) => each.seesEverything?.(caller) ?? false),
      hiddenBy: (caller: Caller, target: ItemTarget) => {
        for (const each of hiding) {
          const rule = each.hiddenBy?.(caller, target);
          if (rule !== undefined) return rule;
        }
        return undefined;
      },
    }),
  };
}

function admitFrom(admissions: readonly Admission[], first: number, request: AdmissionRequest): void | Promise<void> {
  for (let at = first; at < admissions.length; at++) {
    const waiting = admissions[at]!.admit(request);
    if (waiting !== undefined) return waiting.then(() => admitFrom(admissions, at + 1, request));
  }
}

function seesFrom(
  admissions: readonly Admission[],
  first: number,
  caller: Caller,
  target: ItemTarget,
): boolean | Promise<boolean> {
  for (let at = first; at < admissions.length; at++) {
    const seen = admissions[at]!.sees!(caller, target);
    if (seen === false) return false;
    if (seen !== true) return seen.then((known) => known && seesFrom(admissions, at + 1, caller, target));
  }
  return true;
}
