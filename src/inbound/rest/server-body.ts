/** Reads the bodies with which clients of LiteLLM and RouteIQ register servers. */
import { randomBytes } from 'node:crypto';
import { ProtocolError } from '../../protocol/errors.js';
import { isObject, type JsonObject, type JsonValue } from '../../protocol/jsonrpc/raw.js';

/**
 * A server as a body describes it, in the form of the configuration file. A missing member leaves its setting
 * unchanged.
 */
export interface ServerBody {
  /** Undefined if the body names no server. */
  readonly id: string | undefined;
  readonly settings: JsonObject;
  readonly meta: JsonObject;
}

type Read = (value: JsonValue, body: JsonObject) => { settings?: JsonObject; meta?: JsonObject };

const refused = (message: string): ProtocolError => new ProtocolError('invalid_params', message);

const text = (name: string, value: JsonValue): string => {
  if (typeof value !== 'string') throw refused(`"${name}" must be a string`);
  return value;
};
const texts = (name: string, value: JsonValue): string[] => {
  if (!Array.isArray(value) || !value.every((each) => typeof each === 'string'))
    throw refused(`"${name}" must be a list of strings`);
  return value;
};
const object = (name: string, value: JsonValue): JsonObject => {
  if (!isObject(value)) throw refused(`"${name}" must be an object`);
  return value;
};
const setting =
  (name: string): Read =>
  (value) => ({ settings: { [name]: value } });
const kept =
  (name: string): Read =>
  (value) => ({ meta: { [name]: value } });
const none: Read = () => ({});

const TRANSPORTS: Readonly<Record<string, string>> = { http: 'http', streamable_http: 'http', sse: 'sse' };

/** The supported members. All others are refused, because a client could not see that a setting was ignored. */
const MEMBERS: Readonly<Record<string, Read>> = {
  server_id: none,
  alias: none,
  server_name: kept('server_name'),
  name: kept('server_name'),
  description: kept('description'),
  mcp_info: (value) => ({ meta: { mcp_info: object('mcp_info', value) } }),
  url: setting('url'),
  spec_path: setting('openapi'),
  transport: (value) => {
    const transport = TRANSPORTS[text('transport', value)];
    if (transport !== undefined) return { settings: { transport } };
    throw refused(
      value === 'stdio'
        ? '"transport" stdio is not allowed in a registration: programs come from the configuration file only'
        : '"transport" must be http, streamable_http or sse',
    );
  },
  // The registry refuses these settings, because programs come from the configuration file only (S1).
  command: setting('command'),
  args: setting('args'),
  env: setting('env'),
  auth_type: (_, body) => ({ settings: { auth: authOf(body), ...authorizationHeader(body) } }),
  credentials: needsAuthType,
  authentication_token: needsAuthType,
  client_id: needsAuthType,
  client_secret: needsAuthType,
  token_url: needsAuthType,
  oauth2_flow: needsAuthType,
  scopes: needsAuthType,
  metadata: (value) => metadataOf(object('metadata', value)),
  mcp_access_groups: (value) => ({ settings: { groups: texts('mcp_access_groups', value) } }),
  allowed_tools: (value) => ({ settings: { tools: { allow: texts('allowed_tools', value) } } }),
  disallowed_tools: (value) => ({ settings: { tools: { deny: texts('disallowed_tools', value) } } }),
  static_headers: (value) => ({ settings: { headers: object('static_headers', value) } }),
  extra_headers: (value) => ({
    settings: { forwardHeaders: Object.fromEntries(texts('extra_headers', value).map((name) => [name, name])) },
  }),
  timeout: (value) => {
    if (typeof value !== 'number' || !(value > 0)) throw refused('"timeout" must be a number of seconds');
    return { settings: { timeouts: { call: `${Math.ceil(value * 1_000)}ms` } } };
  },
  // The gateway asks the server itself for both lists, so these members are ignored.
  tools: none,
  resources: none,
};

function needsAuthType(_: JsonValue, body: JsonObject): ReturnType<Read> {
  if (body['auth_type'] === undefined) throw refused('"auth_type" is missing: it says how a credential is sent');
  return {};
}

/** Values with the same meaning as a missing member. */
const isUnset = (value: JsonValue | undefined): boolean =>
  value === undefined ||
  value === null ||
  value === false ||
  (Array.isArray(value) && value.length === 0) ||
  (isObject(value) && Object.keys(value).length === 0);

export function readServerBody(body: JsonObject): ServerBody {
  let settings: JsonObject = {};
  let meta: JsonObject = {};
  for (const [name, value] of Object.entries(body)) {
    if (isUnset(value)) continue;
    const read = Object.hasOwn(MEMBERS, name) ? MEMBERS[name] : undefined;
    if (!read) throw refused(`"${name}" is not supported by this gateway; leave it out`);
    const given = read(value!, body);
    settings = merged(settings, given.settings ?? {});
    meta = { ...meta, ...given.meta };
  }
  return { id: idIn(body), settings, meta };
}

/** Every server has one name here: its id, its alias and the prefix of its tools are the same. */
function idIn(body: JsonObject): string | undefined {
  const named = ['server_id', 'alias'].flatMap((name) => (isUnset(body[name]) ? [] : [text(name, body[name]!)]));
  const [first, second = first] = named;
  if (first?.toLowerCase() !== second?.toLowerCase())
    throw refused('"server_id" and "alias" must be the same: a server has one name at this gateway');
  return first ?? (isUnset(body['server_name']) ? undefined : text('server_name', body['server_name']!));
}

export const newServerId = (): string => `s${randomBytes(8).toString('hex').slice(1)}`;

/** Members of both objects; maps within them are merged too. */
function merged(one: JsonObject, other: JsonObject): JsonObject {
  const result: JsonObject = { ...one };
  for (const [name, value] of Object.entries(other)) {
    const before = result[name];
    result[name] = isObject(before) && isObject(value) ? { ...before, ...value } : value;
  }
  return result;
}

/** The settings that a merge patch has to remove when another kind of credential replaces them. */
const NO_AUTH: JsonObject = {
  apiKey: null,
  header: null,
  prefix: null,
  oauth: null,
  clientCredentials: null,
  tokenExchange: null,
};

function authOf(body: JsonObject): JsonValue {
  switch (body['auth_type']) {
    case 'none':
    case 'basic':
    case 'authorization':
      return null;
    case 'bearer_token':
      return { ...NO_AUTH, apiKey: secretIn(body) };
    case 'api_key':
      return { ...NO_AUTH, apiKey: secretIn(body), header: 'X-API-Key' };
    case 'oauth2':
      return { ...NO_AUTH, ...oauthOf(body) };
    default:
      throw refused('"auth_type" must be none, api_key, bearer_token, basic, authorization or oauth2');
  }
}

function authorizationHeader(body: JsonObject): JsonObject {
  if (body['auth_type'] === 'authorization') return { headers: { Authorization: secretIn(body) } };
  if (body['auth_type'] !== 'basic') return {};
  return { headers: { Authorization: `Basic ${Buffer.from(secretIn(body)).toString('base64')}` } };
}

/** The secret of a body, in the places where LiteLLM and RouteIQ have it. */
function secretIn({ credentials, authentication_token, metadata }: JsonObject): string {
  const within = { ...(isObject(metadata) ? metadata : {}), ...(isObject(credentials) ? credentials : {}) };
  const secret = within['auth_value'] ?? authentication_token ?? within['auth_token'] ?? within['api_key'];
  if (typeof secret !== 'string' || secret === '')
    throw new ProtocolError(
      'missing_parameter',
      'credentials.auth_value is required in request body for this auth_type',
    );
  return secret;
}

function oauthOf(body: JsonObject): JsonObject {
  const { credentials } = body;
  const given: JsonObject = { ...body, ...(isObject(credentials) ? credentials : {}) };
  const optional = (name: string): string | undefined => (isUnset(given[name]) ? undefined : text(name, given[name]!));
  const scopes = isUnset(given['scopes']) ? [] : texts('scopes', given['scopes']!);
  const client = { clientId: optional('client_id'), clientSecret: optional('client_secret') };
  const tokenUrl = optional('token_url');
  if (given['oauth2_flow'] === 'client_credentials' || tokenUrl !== undefined)
    return { clientCredentials: { ...client, tokenUrl, ...(scopes.length > 0 && { scope: scopes.join(' ') }) } };
  return { oauth: { registration: 'auto', ...client, ...(scopes.length > 0 && { scopes }) } };
}

/** The free members of RouteIQ. Secrets among them are not stored here, because they belong to `auth_type`. */
function metadataOf({ auth_token, api_key, description, ...others }: JsonObject): ReturnType<Read> {
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw refused(`"metadata.${unknown}" is not supported by this gateway; leave it out`);
  return { meta: { ...(!isUnset(description) && { description }) } };
}

/** A merge patch for a new server has nothing to remove. */
export function withoutRemovals(settings: object): Record<string, unknown> {
  const kept: [string, unknown][] = [];
  for (const [name, value] of Object.entries(settings)) {
    if (value === null || value === undefined) continue;
    if (name === 'auth') kept.push([name, withoutRemovals(value as object)]);
    else kept.push([name, value]);
  }
  return Object.fromEntries(kept);
}
