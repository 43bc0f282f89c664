import type { Caller } from '../../core/caller.js';
import { ALL_SERVERS, type ServerGateway } from '../../core/gateway.js';
import type { UpstreamRegistry } from '../../core/upstream-registry.js';
import { ofWholeGateway } from '../../core/whole-admin.js';
import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import type { RequestContext, Route } from '../http/route.js';
import { REST_ERRORS } from './rest-errors.js';
import { type BodyLimits, NO_PARAMS, readBody, restCall, restCaller, send } from './rest-request.js';
import { newServerId, readServerBody, withoutRemovals } from './server-body.js';

export interface ServerTrialOptions {
  readonly gateway: Pick<ServerGateway, 'atServer'>;
  readonly registry: Pick<UpstreamRegistry, 'check'>;
  readonly limits: BodyLimits;
  /** Connects to a server of these settings and lists its tools; the server does not become part of the gateway. */
  toolsOf(caller: Caller, name: string, settings: object): Promise<readonly JsonObject[]>;
}

/** Tries the settings of a server before it is registered. */
export class ServerTrial {
  constructor(private readonly options: ServerTrialOptions) {}

  routes(): Route[] {
    const route = { method: 'POST', access: 'admin', errors: REST_ERRORS } as const;
    return [
      {
        ...route,
        path: '/mcp-rest/test/connection',
        description: 'Connects to a server that is not registered',
        handle: (context) => this.answer(context, () => ({ status: 'ok' })),
      },
      {
        ...route,
        path: '/mcp-rest/test/tools/list',
        description: 'Lists the tools of a server that is not registered',
        handle: (context) =>
          this.answer(context, (tools) => ({ tools, error: null, message: 'Successfully retrieved tools' })),
      },
    ];
  }

  /**
   * Settings that a registration must not contain are refused with an error. A failure of the server is a regular
   * answer of this route.
   */
  private async answer(context: RequestContext, succeeded: (tools: readonly JsonObject[]) => object): Promise<void> {
    ofWholeGateway(context.principal);
    const { gateway, registry, limits, toolsOf } = this.options;
    const body = readServerBody((await readBody(context, limits)).value());
    const settings = withoutRemovals(body.settings);
    // The trial has a name of its own, so that it shares nothing with a server of the gateway.
    const name = registry.check('server', newServerId(), settings);
    const caller = restCaller(context);
    const call = restCall(context, 'servers/try', NO_PARAMS, ALL_SERVERS);
    try {
      const tools = await gateway.atServer(caller, call, name, () => toolsOf(caller, name, settings));
      send(context, succeeded(tools));
    } catch (error) {
      if (!isFailureOfServer(error)) throw error;
      send(context, { status: 'error', error: true, message: error.message.replaceAll(`"${name}"`, 'of the request') });
    }
  }
}

const isFailureOfServer = (error: unknown): error is Error =>
  error instanceof UpstreamRpcError ||
  (error instanceof ProtocolError && (error.reason.startsWith('upstream_') || error.reason === 'login_required'));
