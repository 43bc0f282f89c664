/** Decides whether a call fails or goes on when a plugin throws, hangs or gives an invalid answer. */
import { ProtocolError } from '../protocol/errors.js';
import type { FailureKind } from './hook-errors.js';

/** `closed`: the call fails if the plugin does. `open`: the call goes on as if the plugin were not there. */
export type FailurePolicy = 'closed' | 'open';

export const PROBLEMS: Readonly<Record<FailureKind, string>> = {
  threw: 'failed',
  timeout: 'did not answer in time',
  blocked: 'blocked its event loop and was disabled',
  ended: 'ended its thread and was disabled',
  invalid: 'gave an invalid answer',
  busy: 'has too many runs at the same time',
  disabled: 'is disabled',
};

/** Throws the error of the call if the plugin is closed. Returns if the call goes on. */
export function failCallIfClosed(
  { name, onFailure }: { readonly name: string; readonly onFailure: FailurePolicy },
  kind: FailureKind,
  outcome: 'not_executed' | 'unknown',
): void {
  if (onFailure === 'open') return;
  const data = { plugin: name, problem: kind };
  throw new ProtocolError('plugin_failed', `The plugin "${name}" ${PROBLEMS[kind]}`, { outcome, data });
}
