import { isUtf8 } from 'node:buffer';
import { type OutputUnit, type Schema, Validator } from '@cfworker/json-schema';
import { type AuditActor, actorOf } from '../../core/audit-trail.js';
import type { Principal } from '../../core/caller.js';
import { ofWholeGateway } from '../../core/whole-admin.js';
import { ProtocolError } from '../../protocol/errors.js';
import { structureFault } from '../../protocol/jsonrpc/json-depth-limit.js';
import type { Access, JsonSchema, Method, Params, Query, RequestContext, Route, RouteApi } from '../http/route.js';
import { sendEmpty, sendText } from '../http/send-body.js';
import { PROBLEM_ERRORS } from './problem-errors.js';

/** One request of the management API: its parameters and its body are checked against the schemas of its operation. */
export interface ApiRequest {
  readonly principal: Principal;
  /** The caller, for the audit trail. */
  readonly by: AuditActor;
  readonly params: Params;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly body: Readonly<Record<string, unknown>>;
  readonly header: (name: string) => string | undefined;
  readonly context: RequestContext;
}

export interface Answer {
  readonly status?: number;
  readonly body?: unknown;
  readonly etag?: string;
  readonly location?: string;
}

/** A route of the management API as data. */
export interface Operation {
  readonly method: Method;
  readonly path: string;
  readonly access: Access;
  readonly tag: string;
  readonly description: string;
  readonly query?: NonNullable<RouteApi['query']>;
  readonly headers?: NonNullable<RouteApi['headers']>;
  readonly body?: JsonSchema;
  readonly optionalBody?: true;
  /** The status and schema of success. */
  readonly answer: { readonly status?: number; readonly description: string; readonly schema?: JsonSchema };
  readonly errors?: readonly (keyof typeof ERRORS)[];
  /** Whether the route also serves administrators whose credential is restricted to some servers, or to a tenant. */
  readonly anyAdmin?: true;
  run(request: ApiRequest): Promise<Answer> | Answer;
}

const ERRORS = {
  400: 'A parameter is not valid',
  404: 'The resource does not exist, or the caller may not see it',
  409: 'The name is in use',
  412: 'The resource has changed since it was read',
  413: 'The body is too large',
  415: 'The body is not JSON',
  422: 'The body is not valid; `problems` lists what to change',
  428: 'The header If-Match is missing',
} as const;

const MAX_BODY = 512 * 1024;
/** Limits on a body, because parsing a body with more levels or members would block the event loop (P6). */
const BODY_STRUCTURE = { depth: 64, members: 50_000 } as const;
const MAX_QUERY = 512;

export function routeOf(operation: Operation): Route {
  const { method, path, access, description, tag, query, headers, body, optionalBody, answer } = operation;
  const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
  const validator = body && new Validator(body as Schema, '2020-12', false);
  const errors: readonly (keyof typeof ERRORS)[] = [
    400,
    ...(body ? ([413, 415, 422] as const) : []),
    ...(operation.errors ?? []),
  ];
  const problems = errors.map((status) => [status, { description: ERRORS[status], schema: PROBLEM }]);
  const api: RouteApi = {
    tag,
    ...(query && { query }),
    ...(headers && { headers }),
    ...(body && { body: { schema: body, type, ...(optionalBody && { optional: true }) } }),
    responses: {
      [answer.status ?? 200]: { description: answer.description, ...(answer.schema && { schema: answer.schema }) },
      ...Object.fromEntries(problems),
    },
  };
  return {
    method,
    path,
    access,
    errors: PROBLEM_ERRORS,
    description,
    api,
    handle: async (context) => {
      const { principal, params, req } = context;
      if (access === 'admin' && operation.anyAdmin !== true) ofWholeGateway(principal);
      const request: ApiRequest = {
        principal,
        by: actorOf(principal, req.clientAddress),
        params,
        query: queryOf(context.query, query ?? {}),
        body: validator ? await bodyOf(context, validator, optionalBody === true) : {},
        header: (name) => req.header(name),
        context,
      };
      send(context, await operation.run(request));
    },
  };
}

export const PROBLEM: JsonSchema = { $ref: '#/components/schemas/Problem' };

function queryOf(given: Query, known: NonNullable<RouteApi['query']>): Record<string, string | undefined> {
  const values: Record<string, string | undefined> = {};
  for (const [name, value] of given) {
    const parameter = Object.hasOwn(known, name) ? known[name] : undefined;
    if (!parameter) {
      const names = Object.keys(known);
      const fix = names.length === 0 ? 'there are none here' : `the parameters are ${names.join(', ')}`;
      throw new ProtocolError(
        'invalid_envelope',
        `Unknown query parameter ${JSON.stringify(name.slice(0, 50))}; ${fix}`,
      );
    }
    const choices = parameter.schema['enum'] as readonly string[] | undefined;
    if (value.length > MAX_QUERY || values[name] !== undefined || choices?.includes(value) === false)
      throw new ProtocolError('invalid_envelope', `The query parameter ${name} is not valid: ${parameter.description}`);
    values[name] = value;
  }
  return values;
}

/**
 * The media type must be JSON. A form on the page of another site cannot send JSON without a preflight request, which
 * the gateway can refuse (S26).
 */
async function bodyOf(
  { req }: RequestContext,
  validator: Validator,
  optional: boolean,
): Promise<Record<string, unknown>> {
  const type = req.header('content-type')?.split(';')[0]?.trim().toLowerCase();
  const bytes = await req.read(MAX_BODY, 'fixed');
  if (bytes.length === 0 && optional) return {};
  if (type !== 'application/json' && type !== 'application/merge-patch+json')
    throw new ProtocolError('unsupported_media_type', 'The body must be JSON: send Content-Type: application/json');
  if (!isUtf8(bytes)) throw new ProtocolError('parse_error', 'The body is not valid UTF-8');
  const fault = structureFault(bytes, BODY_STRUCTURE);
  if (fault !== undefined) throw new ProtocolError('parse_error', `The body ${fault}`);
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString('utf8'));
  } catch {
    throw new ProtocolError('parse_error', 'The body is not valid JSON');
  }
  const { valid, errors } = validator.validate(value);
  if (valid) return value as Record<string, unknown>;
  const problems = errors
    .filter(isLeaf)
    .slice(0, 20)
    .map(({ instanceLocation, error }) => ({
      key: instanceLocation.replace(/^#\/?/, ''),
      code: 'schema',
      message: error,
    }));
  throw new ProtocolError('invalid_settings', 'The body does not match its schema', { data: { problems } });
}

/**
 * Whether an error is about the wrong value itself. Errors that only say that a value within is wrong are left out.
 */
const isLeaf = ({ keyword }: OutputUnit): boolean => !['properties', 'items', '$ref', 'allOf'].includes(keyword);

function send({ req, res, headers }: RequestContext, { status = 200, body, etag, location }: Answer): void {
  const all = [
    ...headers,
    'Cache-Control',
    'no-store',
    ...(etag === undefined ? [] : ['ETag', `"${etag}"`]),
    ...(location === undefined ? [] : ['Location', location]),
  ];
  if (etag !== undefined && req.method !== 'POST' && versionsIn(req.header('if-none-match'))?.includes(etag) === true)
    sendEmpty(res, 304, all);
  else if (body === undefined) sendEmpty(res, 204, all);
  else sendText(res, status, all, 'application/json', JSON.stringify(body));
}

/** The strong entity tags of If-Match or If-None-Match; `*` for any; undefined without the header. */
export function tagsOf(value: string | undefined): readonly string[] | '*' | undefined {
  if (value === undefined) return undefined;
  if (value.trim() === '*') return '*';
  const tags = [...value.matchAll(/(W\/)?"([^"]*)"/g)].flatMap(([, weak, tag]) => (weak === undefined ? [tag!] : []));
  return tags;
}

const versionsIn = (value: string | undefined): readonly string[] | undefined => {
  const tags = tagsOf(value);
  return tags === '*' ? undefined : tags;
};

/** The versions that a change may replace. Without the header the caller cannot know what it overwrites. */
export function expectedOf(header: (name: string) => string | undefined): readonly string[] | undefined {
  const tags = tagsOf(header('if-match'));
  if (tags === undefined)
    throw new ProtocolError(
      'precondition_required',
      'Send If-Match with the ETag of the resource that you have read, or If-Match: * to change any version',
    );
  return tags === '*' ? undefined : tags;
}
