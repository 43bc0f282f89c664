import type { JsonObject } from '../../jsonrpc/raw.js';
import { type ClientCapabilities, isObject, type ServerCapabilities, TASKS_EXTENSION } from '../model.js';
import type { Expresses, Revision } from '../revisions/index.js';

/**
 * A client's capabilities in the modern vocabulary, which has no `tasks`; the `tasks` of 2025-11-25 are read elsewhere.
 */
export function decodeClientCapabilities(declared: unknown, from: Revision): ClientCapabilities {
  if (!isObject(declared)) return {};
  const out: ClientCapabilities = { ...declared };
  delete out['tasks'];
  if (from.era === 'modern') return out;
  if (isObject(declared['elicitation'])) {
    const { form, url } = declared['elicitation'];
    // An empty object means form mode (ELI-01).
    out.elicitation = { ...((form || !url) && { form: {} }), ...(isObject(url) && { url }) };
  }
  if (from.expresses.elicitation.length === 0) delete out.elicitation;
  if (!from.expresses.samplingTools && isObject(declared['sampling'])) out.sampling = {};
  // The tasks extension is undefined before the modern era (TSKX-13).
  if (isObject(out.extensions)) out.extensions = without(out.extensions, TASKS_EXTENSION);
  return out;
}

/**
 * The capabilities that the gateway declares to a server of this revision on behalf of a caller (GW-06: only those of
 * the caller).
 */
export function encodeClientCapabilities(capabilities: ClientCapabilities, to: Revision): JsonObject {
  if (to.era === 'modern') return isObject(capabilities.roots) ? { ...capabilities, roots: {} } : capabilities;
  const out: JsonObject = { ...capabilities };
  const { elicitation, sampling, extensions } = capabilities;
  delete out['elicitation'];
  delete out['extensions'];
  if (isObject(elicitation)) {
    const declared = Object.keys(elicitation).length === 0 ? { form: {} } : elicitation;
    const modes = Object.fromEntries(
      to.expresses.elicitation.filter((mode) => mode in declared).map((mode) => [mode, {}]),
    );
    // Revisions before URL mode have no modes.
    if (to.expresses.elicitation.includes('url')) {
      if (Object.keys(modes).length > 0) out['elicitation'] = modes;
    } else if ('form' in modes) out['elicitation'] = {};
  }
  if (isObject(sampling) && !to.expresses.samplingTools) out['sampling'] = {};
  if (isObject(extensions)) {
    const known = without(extensions, TASKS_EXTENSION);
    if (Object.keys(known).length > 0) out['extensions'] = known;
  }
  return out;
}

/** A server's capabilities in the modern vocabulary. */
export function decodeServerCapabilities(declared: unknown, from: Revision): ServerCapabilities {
  if (!isObject(declared)) return {};
  const out: ServerCapabilities = { ...declared };
  if (from.era === 'legacy') delete out['tasks'];
  // 2024-11-05 has completion/complete but no flag for its support. The gateway assumes support until the server
  // refuses a request.
  if (!from.expresses.completionsCapability && (out.prompts || out.resources)) out.completions ??= {};
  return out;
}

export function encodeServerCapabilities(capabilities: ServerCapabilities, to: Revision): JsonObject {
  if (to.era === 'modern') return capabilities;
  const out: JsonObject = { ...capabilities };
  if (!to.expresses.completionsCapability) delete out['completions'];
  if (isObject(out['extensions'])) out['extensions'] = without(out['extensions'], TASKS_EXTENSION);
  if (isObject(out['extensions']) && Object.keys(out['extensions']).length === 0) delete out['extensions'];
  return out;
}

/** The request parameters that the server's revision does not know. */
export function unsupportedParams(method: string, to: Expresses): readonly string[] {
  return method === 'completion/complete' && !to.completionContext ? ['context'] : [];
}

function without(object: JsonObject, key: string): JsonObject {
  const { [key]: _, ...rest } = object;
  return rest;
}

/**
 * The capabilities declared on a session that several clients use in turn: the questions they can answer, and nothing
 * specific to one client, such as changes of its roots. Clients that can answer the same questions share a session.
 */
export function sharedCapabilities(capabilities: ClientCapabilities): ClientCapabilities {
  const { elicitation, sampling, roots, ...out } = capabilities;
  if (isObject(elicitation)) {
    // An empty object means form mode (ELI-01).
    const { form, url } = elicitation;
    out.elicitation = { ...((form || !url) && { form: {} }), ...(url && { url: {} }) };
  }
  if (isObject(sampling)) out.sampling = sampling['tools'] ? { tools: {} } : {};
  if (isObject(roots)) out.roots = {};
  return out;
}

/** A stable text for a set of capabilities. Clients with equal texts may share an upstream session. */
export function capabilityFingerprint(capabilities: JsonObject): string {
  return JSON.stringify(sorted(capabilities));
}

function sorted(value: unknown): unknown {
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sorted(value[key])]),
  );
}
