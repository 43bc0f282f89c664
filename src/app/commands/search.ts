/** `parley search`: starts the servers, searches their tools once, and stops. */
import type { Config } from '../../config/schema.js';
import { GATEWAY } from '../../core/caller.js';
import { ALL_SERVERS } from '../../core/gateway.js';
import { ToolSearch, type ToolSearchRequest } from '../../core/search/tool-search.js';
import { Lifecycle } from '../lifecycle.js';
import { INFO } from '../product-info.js';
import { Runtime } from '../runtime.js';
import type { ServeOptions } from '../serve.js';

export interface SearchAnswer {
  readonly tools: readonly {
    readonly name: string;
    readonly server: string;
    readonly score: number;
    readonly description: string;
  }[];
  /** Servers whose tools are not part of the search. */
  readonly missing: readonly { readonly server: string; readonly reason: string }[];
}

/** The tools that fit a need, as an operator sees them, who sees every tool. */
export async function searchTools(
  config: Config,
  options: Pick<ServeOptions, 'log'>,
  request: ToolSearchRequest,
): Promise<SearchAnswer> {
  const { log } = options;
  const lifecycle = new Lifecycle(log);
  try {
    return await lifecycle.start(async () => {
      const reporting = { private: true, showsOutput: () => 'log.level: debug' };
      const built = await Runtime.build(config, INFO, log, reporting);
      const { catalog } = lifecycle.add('runtime', built, (part) => part.close()).mcp;
      await catalog.warm();
      const found = await new ToolSearch(catalog).search(GATEWAY, ALL_SERVERS, request);
      const { missing } = await catalog.parts(GATEWAY, ALL_SERVERS, 'tools/list');
      const tools = found.map(({ name, server, score, item }) => {
        const { description } = item.value;
        return { name, server, score, description: typeof description === 'string' ? description : '' };
      });
      return { tools, missing };
    });
  } finally {
    await lifecycle.stop();
  }
}
