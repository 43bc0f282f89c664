import { ANYBODY, type Authenticator } from '../../identity/authenticator.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { MetricRegistry } from '../../telemetry/metrics/metric-types.js';
import { prometheusText } from '../../telemetry/metrics/prometheus-text.js';
import type { ErrorFormat, RequestContext, Route } from '../http/route.js';
import { sendText } from '../http/send-body.js';

export interface MetricsEndpointOptions {
  readonly registry: MetricRegistry;
  /** Whether everybody may read the metrics; otherwise administrators may. */
  readonly everybody: boolean;
  /** Authenticates readers in place of the gateway's authenticator. */
  readonly authenticator?: Authenticator | undefined;
}

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/**
 * Serves the metrics in the text format of Prometheus. Unless everybody may read them, the metrics name servers and
 * tools, and only administrators may read them.
 */
export class MetricsEndpoint {
  constructor(private readonly options: MetricsEndpointOptions) {}

  routes(errors: ErrorFormat): Route[] {
    const { everybody, authenticator } = this.options;
    const route = {
      method: 'GET',
      path: '/metrics',
      errors,
      description: 'Metrics in the text format of Prometheus',
      handle: (context: RequestContext) => this.show(context),
    } as const;
    if (everybody) return [{ ...route, access: 'public', authenticator: ANYBODY }];
    return [{ ...route, access: 'admin', ...(authenticator && { authenticator }) }];
  }

  private async show({ res, headers, principal }: RequestContext): Promise<void> {
    const { servers = [], tools = [] } = principal.restriction ?? {};
    if (servers.length > 0 || tools.length > 0 || principal.tenant !== undefined)
      throw new ProtocolError(
        'forbidden',
        'The metrics are about all callers and servers, and this credential is limited',
      );
    const text = prometheusText(await this.options.registry.read());
    sendText(res, 200, [...headers, 'Cache-Control', 'no-store'], CONTENT_TYPE, text);
  }
}
