import type { JsonSchema, Route } from '../http/route.js';
import { SCHEMAS } from './schemas.js';

type Described = Pick<Route, 'method' | 'path' | 'access' | 'description' | 'api' | 'errors'>;

/** The OpenAPI 3.1 document of all routes. It follows from the route table, so no route is missing. */
export function openApiOf(routes: readonly Described[], version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = templateOf(route);
    paths[path] ??= {};
    paths[path]![route.method.toLowerCase()] = operationOf(route);
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

/** The path as a template of OpenAPI. OpenAPI has no form for a parameter with several segments. */
const templateOf = ({ path }: Pick<Described, 'path'>): string => path.replace('*}', '}');

/** The groups of routes outside of the management API: by their paths, and otherwise by the form of their errors. */
const GROUPS: readonly (readonly [RegExp, string])[] = [
  [/^\/(_?health|servers|metrics)/, 'Operation'],
  [/^\/api\/v1\/tail$/, 'Calls'],
  [/^\/connect\//, 'Sign-in'],
];
const PROTOCOLS: Readonly<Record<string, string>> = {
  mcp: 'MCP',
  oauth: 'OAuth',
  problem: 'Management',
  rest: 'REST',
};

export const tagOf = ({ api, path, errors }: Described): string =>
  api?.tag ?? GROUPS.find(([pattern]) => pattern.test(path))?.[1] ?? PROTOCOLS[errors.name] ?? 'A2A';

const ACCESS = {
  public: 'Needs no authentication.',
  user: 'Needs an authenticated caller.',
  admin: 'Needs the role `admin`.',
} as const;

function operationOf(route: Described): Record<string, unknown> {
  const { method, path, access, description, api } = route;
  const parameters = [
    ...[...path.matchAll(/\{(\w+)(\*?)\}/g)].map(([, name, many]) => ({
      name,
      in: 'path',
      ...(many === '*' && { description: 'The rest of the path, which may contain slashes.' }),
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
    operationId: operationIdOf(method, path),
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

/** The id of an operation. It is unique, although `/message:send` and `/message/send` are similar. */
const operationIdOf = (method: string, path: string): string => {
  const words = path.split(':').map((part) => part.replace(/[^A-Za-z0-9]+(\w?)/g, (_, next: string) => `_${next}`));
  return `${method.toLowerCase()}${words.join('__')}`;
};

const PROBLEM_OR_OTHER = ({ errors }: Described): JsonSchema | undefined =>
  errors.name === 'problem' ? { $ref: '#/components/schemas/Problem' } : undefined;

function response(description: string, schema: JsonSchema | undefined, failed = true): Record<string, unknown> {
  const type = failed && schema ? 'application/problem+json' : 'application/json';
  return { description, ...(schema && { content: { [type]: { schema } } }) };
}
