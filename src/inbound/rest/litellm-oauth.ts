import type { ConnectLinks } from '../../identity/upstream-login/connect-links.js';
import type { Logins } from '../../identity/upstream-login/login-flow.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { RequestContext, Route } from '../http/route.js';
import { sendJson } from '../http/send-body.js';
import { REST_ERRORS } from './rest-errors.js';
import { privateHeaders } from './rest-request.js';
import type { ServerLookup } from './server-lookup.js';

export interface LiteLlmOAuthOptions {
  readonly servers: ServerLookup;
  readonly logins: Pick<Logins, 'get'>;
  readonly links: Pick<ConnectLinks, 'make'>;
  /** The URL at which browsers reach the gateway. */
  base(): string | undefined;
}

const ROOT = '/v1/mcp/server/oauth';

/**
 * The OAuth routes of LiteLLM. The gateway itself is the OAuth client of the servers, and their tokens never leave the
 * gateway (S12). Users sign in on a page of the gateway, and routes that would return codes or tokens are refused.
 */
export class LiteLlmOAuth {
  constructor(private readonly options: LiteLlmOAuthOptions) {}

  routes(): Route[] {
    const refused = (path: string, what: string): Route => ({
      method: 'POST',
      path: `${ROOT}${path}`,
      access: 'admin',
      errors: REST_ERRORS,
      description: `Not supported: ${what}`,
      handle: () => {
        throw new ProtocolError('unsupported_operation', `Not supported: ${what}`);
      },
    });
    return [
      {
        method: 'GET',
        path: `${ROOT}/{id}/authorize`,
        access: 'user',
        errors: REST_ERRORS,
        description: 'Leads the caller to the page on which it signs in at a server',
        handle: (context) => this.authorize(context),
      },
      refused('/{id}/token', 'the gateway gets and stores the tokens of servers itself'),
      refused('/{id}/register', 'the gateway registers itself as a client of authorization servers'),
      refused('/session', 'register the server; there are no temporary servers'),
    ];
  }

  private async authorize(context: RequestContext): Promise<void> {
    const { servers, logins, links, base } = this.options;
    const name = await servers.named(context, context.params['id']!);
    const url = base();
    if (logins.get(`server:${name}`) === undefined || url === undefined)
      throw new ProtocolError('invalid_request', `Users do not sign in at server "${name}" ("auth.oauth")`);
    if (context.query.has('redirect_uri'))
      throw new ProtocolError(
        'unsupported_operation',
        'The gateway keeps the tokens of a server and sends no code to a redirect_uri; leave redirect_uri out',
      );
    const { url: location, code } = links.make(url, context.principal, `server:${name}`, undefined);
    const body = { url: location, ...(code !== undefined && { code }) };
    const headers = [...privateHeaders(context), 'Location', location];
    sendJson(context.res, 307, headers, [Buffer.from(JSON.stringify(body))]);
  }
}
