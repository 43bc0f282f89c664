/** `parley lint`: starts the servers, checks the definitions of their tools once, and stops. */
import type { Config } from '../../config/schema.js';
import type { ServerFinding } from '../../core/hygiene/server-lint.js';
import { Lifecycle } from '../lifecycle.js';
import { INFO } from '../product-info.js';
import { Runtime } from '../runtime.js';
import type { ServeOptions } from '../serve.js';

export interface LintAnswer {
  readonly findings: readonly (ServerFinding & { readonly server: string })[];
  /** Servers whose tools could not be read. */
  readonly missing: readonly string[];
}

export async function lintTools(config: Config, options: Pick<ServeOptions, 'log'>): Promise<LintAnswer> {
  const { log } = options;
  const lifecycle = new Lifecycle(log);
  // Also checks servers whose settings switch off the check of tools while the gateway runs.
  const servers = Object.fromEntries(
    Object.entries(config.servers).map(([name, server]) => [
      name,
      server.lint === 'off' ? { ...server, lint: 'warn' as const } : server,
    ]),
  );
  try {
    return await lifecycle.start(async () => {
      const reporting = { private: true, showsOutput: () => 'log.level: debug' };
      const built = await Runtime.build({ ...config, servers }, INFO, log, reporting);
      const { catalog } = lifecycle.add('runtime', built, (part) => part.close()).mcp;
      await catalog.warm();
      const findings = catalog.servers.flatMap((server) =>
        catalog.findings(server).map((finding) => ({ server, ...finding })),
      );
      const missing = catalog.servers.filter((server) => catalog.offer(server).count === undefined);
      return { findings, missing };
    });
  } finally {
    await lifecycle.stop();
  }
}
