import { ProtocolError } from '../protocol/errors.js';
import type { Caller } from './caller.js';

export type TargetKind = 'tool' | 'prompt' | 'resource' | 'agent';

export interface Target {
  readonly server: string;
  readonly kind: TargetKind;
  /** The target's own name or URI at its server. */
  readonly name: string;
}

/** May this caller use this target? Asked on every list and again on every call, with the resolved target (S3). */
export interface Admission {
  sees(caller: Caller, target: Target): boolean;
  /** Throws what the caller is to be told. */
  admit(caller: Caller, target: Target): void;
}

/** Everyone may see everything; tools of servers whose invocation is switched off are not called. */
export class OpenAdmission implements Admission {
  constructor(private readonly callable: (server: string) => boolean) {}

  sees(): boolean {
    return true;
  }

  admit(_: Caller, target: Target): void {
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
