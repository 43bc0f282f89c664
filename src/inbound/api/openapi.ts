import type { JsonSchema, Route } from '../http/route.js';
import { SCHEMAS } from './schemas.js';

type Described = Pick<Route, 'method' | 'path' | 'access' | 'description' | 'api' | 'errors'>;

/** The OpenAPI 3.1 document of all routes. It follows from the route table, so no route is missing. */
export function openApiOf(routes: readonly Described[], version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    paths[route.path] ??= {};
    paths[route.path]![route.method.toLowerCase()] = operationOf(route);
  }
  const tags = [...new Set(routes.map(tagOf))];
  return {
    openapi: '3.1.0',
    info: {
      title: 'Parley',
      version,
      description: 'All HTTP routes of the gateway. Routes below /api/v1 are the management API.',
    },
    servers: [{ url: '/' }],
    tags: tags.map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: 'A token or an API key.' } },
      schemas: SCHEMAS,
    },
  };
}

const PROTOCOLS: Readonly<Record<string, string>> = { mcp: 'MCP', problem: 'Management' };

export const tagOf = ({ api, path, errors }: Described): string => {
  if (api) return api.tag;
  if (/^\/(_?health|servers)/.test(path)) return 'Operation';
  return PROTOCOLS[errors.name] ?? 'A2A';
};

const ACCESS = {
  public: 'Needs no authentication.',
  user: 'Needs an authenticated caller.',
  admin: 'Needs the role `admin`.',
} as const;

function operationOf(route: Described): Record<string, unknown> {
  const { method, path, access, description, api } = route;
  const parameters = [
    ...[...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
      name,
      in: 'path',
      required: true,
      schema: { type: 'string' },
    })),
    ...Object.entries(api?.query ?? {}).map(([name, { description: said, schema }]) => ({
      name,
      in: 'query',
      description: said,
      schema,
    })),
    ...Object.entries(api?.headers ?? {}).map(([name, said]) => ({
      name,
      in: 'header',
      description: said,
      schema: { type: 'string' },
    })),
  ];
  const secured =
    access === 'public'
      ? {}
      : {
          '401': response('The caller is not known', PROBLEM_OR_OTHER(route)),
          ...(access === 'admin' && { '403': response('The caller is not an administrator', PROBLEM_OR_OTHER(route)) }),
        };
  const responses = Object.entries(api?.responses ?? { default: { description: 'The answer of the protocol' } }).map(
    ([status, { description: said, schema }]) => [status, response(said, schema, Number(status) >= 400)],
  );
  return {
    operationId: `${method.toLowerCase()}${path.replace(/[^A-Za-z0-9]+(\w?)/g, (_, next: string) => `_${next}`)}`,
    summary: description,
    description: ACCESS[access],
    tags: [tagOf(route)],
    'x-parley-access': access,
    security: access === 'public' ? [] : [{ bearer: [] }],
    ...(parameters.length > 0 && { parameters }),
    ...(api?.body && {
      requestBody: {
        required: api.body.optional !== true,
        content: { [api.body.type]: { schema: api.body.schema } },
      },
    }),
    responses: { ...Object.fromEntries(responses), ...secured },
  };
}

const PROBLEM_OR_OTHER = ({ errors }: Described): JsonSchema | undefined =>
  errors.name === 'problem' ? { $ref: '#/components/schemas/Problem' } : undefined;

function response(description: string, schema: JsonSchema | undefined, failed = true): Record<string, unknown> {
  const type = failed && schema ? 'application/problem+json' : 'application/json';
  return { description, ...(schema && { content: { [type]: { schema } } }) };
}
