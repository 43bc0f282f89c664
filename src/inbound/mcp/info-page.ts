import { type Caller, callerOf, type Principal } from '../../core/caller.js';
import { type Call, type Gateway, plainCall, type View } from '../../core/gateway.js';
import type { UpstreamState } from '../../core/upstream-monitor.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import { type Implementation, isObject } from '../../protocol/mcp/model.js';
import { NEWEST, NEWEST_LEGACY, REVISION_DATES } from '../../protocol/mcp/revisions/index.js';
import { encodeServerCapabilities } from '../../protocol/mcp/translate/capabilities.js';
import { baseFor } from '../http/base-url.js';
import { clientSnippets, TOKEN_PLACEHOLDER } from './client-snippets.js';
import { htmlPage, type PageTool } from './html-page.js';

export interface InfoPageOptions {
  readonly gateway: Gateway;
  readonly info: Implementation;
  /** The servers and agents that the caller may see, with their states. */
  states(caller: Caller): Promise<readonly UpstreamState[]>;
  /** Whether a server is in the view. */
  inView(view: View, server: string): boolean;
  /** The endpoints below a URL. */
  endpoints(base: string): readonly { readonly label: string; readonly address: string }[];
  /** The configured public URL; if undefined, each caller sees the URL it used. */
  readonly publicUrl: string | undefined;
  /** Whether callers need a token. */
  readonly guarded: boolean;
}

/** The response to a plain GET of the endpoint: the endpoint, and the tools that the caller may use (C-01). */
export class InfoPage {
  constructor(private readonly options: InfoPageOptions) {}

  async describe(view: View, principal: Principal): Promise<JsonObject> {
    const discover = plainCall('server/discover', RawObject.from({}), view);
    const { capabilities } = await this.options.gateway.describe(callerOf(principal), discover);
    const path = pathOf(view);
    return {
      jsonrpc: '2.0',
      result: {
        protocolVersion: NEWEST.date,
        capabilities: encodeServerCapabilities(capabilities, NEWEST_LEGACY),
        serverInfo: this.options.info,
        tools: await this.tools(view, principal),
        transport: 'streamable-http',
        endpoints: { jsonrpc: `POST ${path}`, info: `GET ${path}` },
        status: 'enabled',
        supportedVersions: [...REVISION_DATES],
      },
    };
  }

  /** The HTML page with the endpoint and the tools. If a server is unavailable, the page shows its state. */
  async html(view: View, principal: Principal, reached: string | undefined): Promise<string> {
    const { info, publicUrl, guarded } = this.options;
    const base = baseFor(publicUrl, reached);
    const { pathName: server } = view;
    const url = `${base}${pathOf(view)}`;
    const { tools, problem } = await this.toolsOrProblem(view, principal);
    const states = await this.options.states(callerOf(principal));
    return htmlPage({
      version: info.version,
      server,
      root: new URL(base).pathname.replace(/\/+$/, ''),
      endpoints: server === undefined ? this.options.endpoints(base) : [{ label: 'MCP', address: url }],
      isView: view.name !== undefined,
      upstreams: states.filter(
        ({ kind, name }) => server === undefined || (kind === 'server' && this.options.inView(view, name)),
      ),
      tools,
      toolsProblem: problem,
      snippets: clientSnippets(url, {
        ...(server !== undefined && { name: server }),
        ...(guarded && { token: TOKEN_PLACEHOLDER }),
      }),
    });
  }

  private async toolsOrProblem(
    view: View,
    principal: Principal,
  ): Promise<{ readonly tools: readonly PageTool[]; readonly problem: string | undefined }> {
    try {
      return { tools: (await this.tools(view, principal)).filter(isObject).map(pageTool), problem: undefined };
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      return { tools: [], problem: error.message };
    }
  }

  private async tools(view: View, principal: Principal): Promise<JsonValue[]> {
    const call: Call = { ...plainCall('tools/list', RawObject.from({}), view), whole: true };
    const outcome = await this.options.gateway.call(callerOf(principal), call);
    const { tools } = outcome.kind === 'complete' ? outcome.result.value() : {};
    return Array.isArray(tools) ? tools : [];
  }
}

const pathOf = ({ pathName }: View): string => (pathName === undefined ? '/mcp' : `/mcp/${pathName}`);

function pageTool({ name, title, description }: JsonObject): PageTool {
  const said = [title, description].filter((text) => typeof text === 'string');
  return { name: String(name), description: said.join(': ') };
}
