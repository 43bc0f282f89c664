import {
  type Admission,
  type AdmissionRequest,
  type ItemTarget,
  serverTarget,
  type Target,
} from '../core/admission.js';
import { SIGN_IN_MARK, SIGN_IN_TOOL } from '../core/catalog/personal-servers.js';
import { isObject, type JsonObject } from '../protocol/jsonrpc/raw.js';

/**
 * Lets every caller that sees a server use the tool by which users sign in there. The gateway answers this tool itself,
 * and no rule about the tools of the server names it.
 */
export function openingSignIns(admission: Admission, hasLogins: (server: string) => boolean): Admission {
  const isSignIn = (target: Target, definition: JsonObject | undefined): target is ItemTarget =>
    target.kind === 'tool' && target.name === SIGN_IN_TOOL && hasLogins(target.server) && isOurs(definition);
  const asked = (target: ItemTarget): ItemTarget =>
    isSignIn(target, target.definition) ? serverTarget(target.server) : target;
  const { sees, hiddenBy, seesEverything } = admission;
  return {
    admit: (request) => {
      const { target, item } = request;
      return admission.admit(isSignIn(target, item?.value) ? ofServer(request, target.server) : request);
    },
    ...(sees && { sees: (caller, target) => sees.call(admission, caller, asked(target)) }),
    ...(hiddenBy && { hiddenBy: (caller, target) => hiddenBy.call(admission, caller, asked(target)) }),
    ...(seesEverything && { seesEverything: (caller) => seesEverything.call(admission, caller) }),
  };
}

/**
 * Whether this is the gateway's own tool. A tool of the server with the same name does not have the mark of the
 * gateway.
 */
function isOurs(definition: JsonObject | undefined): boolean {
  const meta = definition?.['_meta'];
  return definition === undefined || (isObject(meta) && meta[SIGN_IN_MARK] === true);
}

/**
 * The same request with the server as its target. It counts as part of an admitted call (`nested`), so that no rule
 * demands an approval: only the user decides about a sign-in.
 */
const ofServer = ({ caller, protocol, method, notes }: AdmissionRequest, server: string): AdmissionRequest => ({
  ...{ caller, protocol, method, target: serverTarget(server), arguments: undefined, call: { nested: true } },
  ...(notes && { notes }),
});
