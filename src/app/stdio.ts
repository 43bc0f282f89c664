/** `parley stdio`: builds, opens and closes the parts of the gateway on stdin and stdout. */
import type { Readable, Writable } from 'node:stream';
import type { Config } from '../config/schema.js';
import { ALL_SERVERS, oneServer } from '../core/gateway.js';
import { OPEN } from '../identity/authenticator.js';
import { ModernRequestHandler } from '../inbound/mcp/modern-requests.js';
import { type Carrier, Sessions } from '../inbound/mcp/session/sessions.js';
import { StdioEndpoint } from '../inbound/mcp/stdio-endpoint.js';
import { Lifecycle } from './lifecycle.js';
import { INFO } from './product-info.js';
import type { Reloadable } from './running-gateway.js';
import { Runtime } from './runtime.js';
import type { ServeOptions } from './serve.js';
import { UpstreamStates } from './upstream-states.js';

export interface StdioOptions extends ServeOptions {
  /** The only server or view to serve; default: all servers. */
  readonly server?: string;
  readonly started?: (gateway: Reloadable) => void;
  /** The streams to the client; default: stdin and stdout of this process. */
  readonly input?: Readable;
  readonly output?: Writable;
}

/** Serves until the input ends, or until a signal asks the process to stop. */
export async function startStdio(config: Config, options: StdioOptions): Promise<void> {
  const lifecycle = new Lifecycle(options.log);
  await lifecycle.start(() => serve(config, options, lifecycle));
  await lifecycle.stop();
}

async function serve(config: Config, options: StdioOptions, lifecycle: Lifecycle): Promise<void> {
  const { log, server, started, input = process.stdin, output = process.stdout } = options;
  const began = performance.now();
  const reporting = { ...options, private: true, showsOutput: () => 'log.level: debug' };
  const runtime = lifecycle.add('runtime', await Runtime.build(config, INFO, log, reporting), (part) => part.close());
  const { mcp } = runtime;
  const sessions = new Sessions<Carrier>(mcp.sessionsOptions());
  lifecycle.add('sessions', sessions, (part) => part.close());
  const view = server === undefined ? ALL_SERVERS : (mcp.views.get(server) ?? oneServer(server));
  const endpoint = new StdioEndpoint(
    {
      modern: new ModernRequestHandler(mcp.gateway, INFO, mcp.states),
      sessions,
      // The program that started the gateway is its operator and needs no token, even if tokens are configured.
      authenticator: OPEN,
      view,
      limits: config.limits,
      failed: (error) => log.error({ err: error }, 'a request failed in the gateway'),
    },
    output,
  );
  lifecycle.add('endpoint', endpoint, (part) => part.end());
  const states = lifecycle.add('upstream states', new UpstreamStates(runtime, began), (part) => part.close());
  states.logChanges(log);
  states.start();
  void mcp.catalog.warm(view);
  started?.({ reload: (next, by) => runtime.reload(next, by) });
  const stopped = new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
  });
  await Promise.race([endpoint.serve(input), stopped]);
  input.destroy();
}
