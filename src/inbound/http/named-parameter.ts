import type { Admission, ItemTarget } from '../../core/admission.js';
import { GATEWAY } from '../../core/caller.js';
import type { ProtocolError } from '../../protocol/errors.js';
import type { Parameter } from './route.js';

export interface NamedParameterOptions {
  /** The registered name for this value; undefined if there is none. */
  find(value: string): string | undefined;
  targetOf(name: string): ItemTarget;
  /** The error for an unknown name. */
  missing(path: string): ProtocolError;
  readonly admission: Pick<Admission, 'sees'>;
}

/** A parameter that names a server or an agent. A name that the caller may not see is treated as unknown. */
export const namedParameter =
  ({ find, targetOf, missing, admission }: NamedParameterOptions): Parameter =>
  (value, path, principal) => {
    const name = find(value);
    if (name === undefined) throw missing(path);
    if (admission.sees === undefined) return name;
    const answer = (seen: boolean): string => {
      if (seen) return name;
      throw missing(path);
    };
    const seen = admission.sees({ ...GATEWAY, principal }, targetOf(name));
    return seen instanceof Promise ? seen.then(answer) : answer(seen);
  };
