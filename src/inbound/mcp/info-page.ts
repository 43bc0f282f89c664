import { type Caller, Cancellation, type Principal } from '../../core/caller.js';
import type { Gateway, View } from '../../core/gateway.js';
import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import type { Implementation, ServerCapabilities } from '../../protocol/mcp/model.js';
import { encodeServerCapabilities } from '../../protocol/mcp/project/capabilities.js';
import { NEWEST, NEWEST_LEGACY, REVISION_DATES } from '../../protocol/mcp/revisions/index.js';

/** What a plain GET of the endpoint shows: the endpoint, and the tools the caller may use (C-01). */
export class InfoPage {
  constructor(
    private readonly gateway: Gateway,
    private readonly capabilitiesOf: (view: View) => Promise<{ capabilities: ServerCapabilities }>,
    private readonly info: Implementation,
  ) {}

  async describe(view: View, principal: Principal): Promise<JsonObject> {
    const { capabilities } = await this.capabilitiesOf(view);
    const path = view.server === undefined ? '/mcp' : `/mcp/${view.server}`;
    return {
      jsonrpc: '2.0',
      result: {
        protocolVersion: NEWEST.date,
        capabilities: encodeServerCapabilities(capabilities, NEWEST_LEGACY),
        serverInfo: this.info,
        tools: await this.tools(view, principal),
        transport: 'streamable-http',
        endpoints: { jsonrpc: `POST ${path}`, info: `GET ${path}` },
        status: 'enabled',
        supportedVersions: [...REVISION_DATES],
      },
    };
  }

  private async tools(view: View, principal: Principal): Promise<JsonValue[]> {
    const caller: Caller = { principal, revision: NEWEST, capabilities: {}, clientInfo: undefined, session: undefined };
    const tools: JsonValue[] = [];
    let cursor: string | undefined;
    do {
      const outcome = await this.gateway.call(caller, {
        method: 'tools/list',
        params: RawObject.from(cursor === undefined ? {} : { cursor }),
        view,
        wantsProgress: false,
        logLevel: undefined,
        cancellation: new Cancellation(),
        header: undefined,
        notify: () => {},
      });
      if (outcome.kind !== 'complete') break;
      const { tools: page, nextCursor } = outcome.result.value();
      if (Array.isArray(page)) tools.push(...page);
      cursor = typeof nextCursor === 'string' ? nextCursor : undefined;
    } while (cursor !== undefined);
    return tools;
  }
}
