import { ANYBODY } from '../../identity/authenticator.js';
import { type ProtectedResources, RESOURCE_METADATA } from '../../identity/protected-resource.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { ErrorFormat, Fallback, RequestContext, Route } from './route.js';
import { sendJson } from './send-body.js';

const AUTHORIZATION_SERVER = '/.well-known/oauth-authorization-server';

/**
 * The endpoints that have metadata of their own. Any name is answered, because the document must not reveal which
 * servers and agents exist.
 */
const ENDPOINTS: readonly string[] = [
  '',
  '/mcp',
  '/mcp/{name}',
  '/{name}/mcp',
  '/sse',
  '/mcp/sse',
  '/mcp/{name}/sse',
  '/a2a',
  '/a2a/{name}',
  '/v1/a2a',
  '/v1/a2a/{name}',
];

export interface OAuthMetadataOptions {
  readonly resources: ProtectedResources;
  /** The RFC 8414 document of the authorization server; undefined if this gateway publishes no such document. */
  readonly authorizationServer?: (() => Promise<object>) | undefined;
}

/** Serves the documents with which OAuth clients find their authorization server. They are public. */
export class OAuthMetadata {
  constructor(private readonly options: OAuthMetadataOptions) {}

  routes(errors: ErrorFormat): Route[] {
    const { resources, authorizationServer } = this.options;
    const route = { method: 'GET', access: 'public', errors, authenticator: ANYBODY } as const;
    const about = ENDPOINTS.map(
      (endpoint): Route => ({
        ...route,
        path: RESOURCE_METADATA + endpoint,
        description: 'OAuth metadata of this endpoint (RFC 9728)',
        handle: (context) => this.resource(context),
      }),
    );
    return [
      ...(resources.published ? about : []),
      ...(authorizationServer
        ? [
            {
              ...route,
              path: AUTHORIZATION_SERVER,
              description: 'OAuth metadata of the authorization server, for clients that look for it here (RFC 8414)',
              handle: async (context: RequestContext) => send(context, await authorizationServer()),
            },
          ]
        : []),
    ];
  }

  /** Clients look for these documents at every gateway. The answer that there is no document needs no token. */
  fallbacks(errors: ErrorFormat): Fallback[] {
    const missing = (path: string): ProtocolError => new ProtocolError('not_found', `Nothing is served at ${path}`);
    return [RESOURCE_METADATA, AUTHORIZATION_SERVER, '/.well-known/openid-configuration'].map((below) => ({
      below,
      access: 'public',
      errors,
      missing,
    }));
  }

  private resource(context: RequestContext): void {
    const { req, path } = context;
    const endpoint = path.slice(RESOURCE_METADATA.length).replace(/\/$/, '');
    send(context, this.options.resources.metadata(endpoint, req));
  }
}

function send({ res, headers }: RequestContext, document: object): void {
  const cached = [...headers, 'Cache-Control', 'public, max-age=300'];
  sendJson(res, 200, cached, [Buffer.from(JSON.stringify(document))]);
}
