import type { LoginPlan } from './discovery.js';
import { hasQuirk, type LoginSettings } from './login-settings.js';

const OFFLINE = 'offline_access';

const tokens = (scope: string | undefined): string[] => (scope ?? '').split(/\s+/).filter((each) => each !== '');

/** Every scope of the arguments once; undefined if there is none. */
export function union(...scopes: readonly (string | undefined)[]): string | undefined {
  const all = new Set(scopes.flatMap(tokens));
  return all.size > 0 ? [...all].join(' ') : undefined;
}

/** Whether `scope` contains everything in `wanted`. */
export const covers = (scope: string | undefined, wanted: string | undefined): boolean => {
  const have = new Set(tokens(scope));
  return tokens(wanted).every((each) => have.has(each));
};

/**
 * The scope of a sign-in (AUC-10, AUC-11): the configured scopes, otherwise those of the challenge, otherwise those
 * that the upstream supports, otherwise none. A step-up adds the scopes that the upstream asked for.
 */
export function scopeOf(plan: LoginPlan, settings: LoginSettings, more: string | undefined): string | undefined {
  const usual = settings.scopes.length > 0 ? settings.scopes.join(' ') : plan.scope;
  const wanted = union(usual, more);
  const offline = plan.metadata?.scopes_supported?.includes(OFFLINE) === true;
  return wanted !== undefined && offline && !hasQuirk(settings, 'no-offline-access') ? union(wanted, OFFLINE) : wanted;
}
