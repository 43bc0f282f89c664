import type { LintAnswer } from '../app/commands/lint.js';
import type { SearchAnswer } from '../app/commands/search.js';
import type { ConfigReloader } from '../app/config-reloader.js';
import type { Reloadable, RunningGateway } from '../app/running-gateway.js';
import type { Config } from '../config/schema.js';
import type { callLog, Logger } from '../telemetry/log-output.js';

/** The functions that start the gateway, or run parts of it for one command. */
export interface Starters {
  startServe(
    config: Config,
    io: { log: Logger; calls: ReturnType<typeof callLog>; quickstart: boolean; reloader: ConfigReloader },
  ): Promise<RunningGateway>;
  startStdio(
    config: Config,
    options: {
      log: Logger;
      calls: ReturnType<typeof callLog>;
      server?: string;
      started?: (gateway: Reloadable) => void;
    },
  ): Promise<void>;
  searchTools(
    config: Config,
    options: { log: Logger },
    request: { query: string; limit: number; server?: string | undefined },
  ): Promise<SearchAnswer>;
  lintTools(config: Config, options: { log: Logger }): Promise<LintAnswer>;
}
