import type { Config } from '../config/schema.js';
import { Egress } from '../outbound/egress.js';
import { proxyRule } from '../outbound/http/index.js';
import { SafeHttp } from '../outbound/safe-http.js';

/**
 * The HTTP client for every URL that a caller, a server or an agent supplies. The client ignores the proxies of the
 * environment.
 */
export function safeHttpOf({ egress, timeouts }: Pick<Config, 'egress' | 'timeouts'>): SafeHttp {
  return new SafeHttp({
    egress: new Egress(egress),
    connectTimeout: timeouts.connect,
    proxy: proxyRule(egress.proxy ?? 'none'),
  });
}
