/** Why a hook failed, and the place of an error. */

export type FailureKind = 'threw' | 'timeout' | 'blocked' | 'ended' | 'invalid' | 'busy' | 'disabled';

export class HookFailure extends Error {
  override readonly name = 'HookFailure';

  constructor(readonly kind: FailureKind) {
    super(kind);
  }
}

/** The hook threw an error in its thread. Only the facts of the error reach the gateway. */
export class ThrewInThread extends Error {
  override readonly name = 'ThrewInThread';

  constructor(readonly facts: object) {
    super('threw');
  }
}

/** The kind of an error, its code, and the place that threw it. A plugin may throw anything, also what cannot be read. */
export function placeOf(error: unknown): object {
  try {
    if (error instanceof ThrewInThread) return error.facts;
    return error instanceof Error ? factsOf(error) : { error: typeof error };
  } catch {
    return { error: 'unreadable' };
  }
}

function factsOf(error: Error): object {
  const { name, code } = error as NodeJS.ErrnoException;
  const at = /^ {4}at (?:.*\()?((?:file|node):[^()\s]+|\/[^()\s]+:\d+:\d+)\)?$/m.exec(framesOf(error))?.[1];
  return {
    error: /^[A-Za-z]{1,40}$/.test(name) ? name : 'Error',
    ...(typeof code === 'string' && /^[A-Z_]{1,40}$/.test(code) && { code }),
    ...(at !== undefined && { at: at.slice(0, 300) }),
  };
}

/** The stack without the message, which it begins with. */
const framesOf = ({ stack, message }: Error): string =>
  String(stack)
    .split(message || '\n')
    .slice(1)
    .join('\n');
