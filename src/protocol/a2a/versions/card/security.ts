/** Security schemes and requirements. 1.0 distinguishes schemes by the member they have, the 0.x versions by `type`. */
import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import { camel, entriesOf, filled } from '../tolerant-readers.js';

const FLOWS = ['authorizationCode', 'clientCredentials', 'deviceCode', 'implicit', 'password'] as const;
/** The flows of 0.3; the device code flow is new in 1.0. */
const OLD_FLOWS: readonly string[] = ['authorizationCode', 'clientCredentials', 'implicit', 'password'];

/** `[member of 1.0, type of 0.x]` */
const KINDS = [
  ['apiKeySecurityScheme', 'apiKey'],
  ['httpAuthSecurityScheme', 'http'],
  ['oauth2SecurityScheme', 'oauth2'],
  ['openIdConnectSecurityScheme', 'openIdConnect'],
  ['mtlsSecurityScheme', 'mutualTLS'],
] as const;

/** The kind and the content of a 1.0 scheme. */
export function opened(scheme: JsonValue | undefined): { kind: string; type: string; body: JsonObject } | undefined {
  if (!isObject(scheme)) return undefined;
  for (const [kind, type] of KINDS) {
    const body = scheme[kind];
    if (isObject(body)) return { kind, type, body };
  }
  return undefined;
}

export interface Security {
  readonly schemes: JsonObject | undefined;
  /** Rewrites requirements that name schemes which were split. */
  readonly requirements: (wire: JsonValue | undefined) => JsonObject[] | undefined;
}

/**
 * Reads the schemes of a card of any version into the 1.0 model. A 1.0 scheme has one OAuth flow, so a scheme with
 * several flows becomes one scheme per flow, and a requirement for it becomes one alternative per flow.
 */
export function readSecurity(wire: JsonValue | undefined): Security {
  const schemes: JsonObject = {};
  const split = new Map<string, string[]>();
  for (const [name, value] of entriesOf(isObject(wire) ? wire : {})) {
    const read = isObject(value) ? readScheme(value) : undefined;
    if (!read) continue;
    const flows = flowsOf(read);
    if (flows.length < 2) {
      schemes[name] = read;
      continue;
    }
    const names = flows.map((flow, index) => (index === 0 ? name : `${name}.${flow}`));
    split.set(name, names);
    const { flows: all, ...rest } = read['oauth2SecurityScheme'] as JsonObject;
    flows.forEach((flow, index) => {
      const own = { [flow]: (all as JsonObject)[flow] };
      schemes[names[index] as string] = { oauth2SecurityScheme: { ...rest, flows: own } };
    });
  }
  return {
    schemes: isObject(wire) ? schemes : undefined,
    requirements: (required) => readRequirements(required, split),
  };
}

function flowsOf(scheme: JsonObject): string[] {
  const body = scheme['oauth2SecurityScheme'];
  const flows = isObject(body) ? body['flows'] : undefined;
  return isObject(flows) ? FLOWS.filter((flow) => isObject(flows[flow])) : [];
}

function readScheme(wire: JsonObject): JsonObject | undefined {
  const scheme = camel(wire);
  // a2a-js servers serialise their internal classes like this (C-16).
  const inner = scheme['scheme'];
  if (isObject(inner) && typeof inner['$case'] === 'string' && isObject(inner['value'])) {
    return readScheme({ [inner['$case']]: inner['value'] });
  }
  const known = opened(scheme);
  if (known) return { [known.kind]: readBody(known.kind, known.body) };
  const kind = KINDS.find(([, type]) => type === scheme['type'])?.[0];
  if (!kind) return undefined;
  const { type: _type, ...body } = scheme;
  return { [kind]: readBody(kind, body) };
}

function readBody(kind: string, wire: JsonObject): JsonObject {
  const body = camel(wire);
  if (kind === 'apiKeySecurityScheme') {
    const { in: where, location, ...rest } = body;
    return { ...rest, location: location ?? where };
  }
  if (kind !== 'oauth2SecurityScheme' || !isObject(body['flows'])) return body;
  return { ...body, flows: readFlows(camel(body['flows'])) };
}

function readFlows(wire: JsonObject): JsonObject {
  const flow = wire['flow'];
  const flows =
    isObject(flow) && typeof flow['$case'] === 'string' ? { [flow['$case']]: flow['value'] as JsonValue } : wire;
  return Object.fromEntries(
    Object.entries(flows).map(([name, value]) => [name, isObject(value) ? camel(value) : value]),
  );
}

function readRequirements(wire: JsonValue | undefined, split: Map<string, string[]>): JsonObject[] | undefined {
  if (!Array.isArray(wire)) return undefined;
  return wire.filter(isObject).flatMap((requirement) => {
    const inner = requirement['schemes'];
    const wrapped = isObject(inner) && !Array.isArray(inner);
    let made: JsonObject[] = [{}];
    for (const [name, scopes] of Object.entries(wrapped ? inner : requirement)) {
      const list = Array.isArray(scopes)
        ? scopes
        : isObject(scopes) && Array.isArray(scopes['list'])
          ? scopes['list']
          : [];
      const names = split.get(name) ?? [name];
      made = names.flatMap((each) => made.map((schemes) => ({ ...schemes, [each]: { list } })));
    }
    return made.map((schemes) => ({ schemes }));
  });
}

/** Schemes as `{type, …}`. Merges the flows of a scheme that was split. */
export function writeOldSchemes(schemes: JsonObject | undefined, has: { mtls: boolean; metadataUrl: boolean }) {
  const made: JsonObject = {};
  const merged = new Map<string, string>();
  for (const [name, scheme] of entriesOf(schemes ?? {})) {
    const found = opened(scheme);
    if (!found || (found.type === 'mutualTLS' && !has.mtls)) continue;
    const base = found.type === 'oauth2' ? baseOf(name, schemes as JsonObject) : undefined;
    const target = base === undefined ? undefined : made[base];
    if (base !== undefined && isObject(target)) {
      target['flows'] = { ...(target['flows'] as JsonObject), ...oldFlows(found.body['flows']) };
      merged.set(name, base);
      continue;
    }
    made[name] = oldScheme(found.type, found.body, has.metadataUrl);
  }
  return { schemes: made, merged };
}

/** The name of the scheme that `name.flow` was split from. */
function baseOf(name: string, schemes: JsonObject): string | undefined {
  const flow = FLOWS.find((each) => name.endsWith(`.${each}`));
  const base = flow && name.slice(0, -flow.length - 1);
  return base && opened(schemes[base])?.type === 'oauth2' ? base : undefined;
}

function oldScheme(type: string, body: JsonObject, metadataUrl: boolean): JsonObject {
  if (type === 'apiKey') {
    const { location, ...rest } = body;
    return { type, ...filled(rest), in: location };
  }
  if (type !== 'oauth2') return { type, ...filled(body) };
  const { flows, oauth2MetadataUrl, ...rest } = body;
  return { type, ...filled({ ...rest, ...(metadataUrl && { oauth2MetadataUrl }) }), flows: oldFlows(flows) };
}

/** The flows that 0.3 has, without the members that are new in 1.0. */
export function oldFlows(flows: JsonValue | undefined): JsonObject {
  if (!isObject(flows)) return {};
  return Object.fromEntries(
    Object.entries(flows).flatMap(([name, flow]) => {
      if (!OLD_FLOWS.includes(name) || !isObject(flow)) return [];
      const { pkceRequired: _pkce, ...rest } = flow;
      return [[name, { ...filled(rest), scopes: rest['scopes'] ?? {} }]];
    }),
  );
}

/** Requirements as `{name: scopes}`, without the duplicates that the merge of flows produces. */
export function writeOldRequirements(
  requirements: JsonObject[] | undefined,
  known: JsonObject,
  merged: Map<string, string>,
): JsonObject[] | undefined {
  if (!requirements) return undefined;
  const seen = new Set<string>();
  return requirements.flatMap((requirement) => {
    const made: JsonObject = {};
    for (const [name, scopes] of entriesOf(isObject(requirement['schemes']) ? requirement['schemes'] : {})) {
      const target = merged.get(name) ?? name;
      // Readers of this card cannot meet a requirement for a scheme that the card cannot express.
      if (known[target] === undefined) return [];
      made[target] = isObject(scopes) && Array.isArray(scopes['list']) ? scopes['list'] : [];
    }
    const text = JSON.stringify(made);
    if (seen.has(text)) return [];
    seen.add(text);
    return [made];
  });
}

/** The schemes for 0.1, which has only their names. */
export function schemeNames(schemes: JsonObject | undefined): string[] {
  const names = Object.values(schemes ?? {}).flatMap((scheme) => {
    const found = opened(scheme);
    if (found?.type === 'http') {
      const name = String(found.body['scheme'] ?? 'Bearer');
      return [name.slice(0, 1).toUpperCase() + name.slice(1)];
    }
    return found ? [NAMES[found.type] ?? found.type] : [];
  });
  return [...new Set(names)];
}

const NAMES: Readonly<Record<string, string>> = {
  apiKey: 'ApiKey',
  oauth2: 'OAuth2',
  openIdConnect: 'OpenIdConnect',
  mutualTLS: 'MutualTLS',
};

/** Schemes and requirements from the scheme names of 0.1: any one of them suffices. */
export function readSchemeNames(wire: JsonValue | undefined): { schemes: JsonObject; requirements: JsonObject[] } {
  const schemes: JsonObject = {};
  for (const name of Array.isArray(wire) ? wire : []) {
    if (typeof name !== 'string' || name === '' || name === '__proto__') continue;
    schemes[name] =
      name.toLowerCase() === 'apikey'
        ? { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } }
        : { httpAuthSecurityScheme: { scheme: name } };
  }
  return { schemes, requirements: Object.keys(schemes).map((name) => ({ schemes: { [name]: { list: [] } } })) };
}
