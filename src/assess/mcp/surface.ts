import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { taskSupport } from '../../protocol/mcp/translate/task.js';
import { asList, asObject, isObject, isText, type Json } from '../json.js';
import type { Reply } from '../wire/reply.js';
import type { OpenOptions, Peer } from './peer.js';

export interface Listing {
  readonly items: readonly Json[];
  readonly pages: readonly Reply[];
}

export interface ToolCall {
  readonly tool: Json;
  readonly reply: Reply;
}

export interface SurfaceOptions {
  readonly peer: Peer;
  /** Whether tools that do not declare themselves read-only may be called. */
  readonly active: boolean;
  /** Opens another connection like the first. */
  readonly fresh: (how?: OpenOptions) => Promise<Peer>;
  /** Whether a credential was given. */
  readonly credentials: boolean;
  /** Every revision that the server speaks over this transport. */
  readonly revisions: readonly string[];
}

export type ListName = 'tools' | 'resources' | 'prompts' | 'resourceTemplates';

export const LIST_METHODS: Readonly<Record<ListName, string>> = {
  tools: 'tools/list',
  resources: 'resources/list',
  prompts: 'prompts/list',
  resourceTemplates: 'resources/templates/list',
};

const CAPABILITY: Readonly<Record<ListName, string>> = {
  tools: 'tools',
  resources: 'resources',
  prompts: 'prompts',
  resourceTemplates: 'resources',
};

const MAX_PAGES = 10;
const MAX_CALLS = 3;

/** One server in one revision over one transport, with the answers that several probes use. */
export class McpSurface {
  peer: Peer;
  /** The replies of connections that ended. */
  readonly earlier = new Set<Reply>();
  private readonly kept = new Map<string, Promise<unknown>>();

  constructor(readonly options: SurfaceOptions) {
    this.peer = options.peer;
  }

  /** Opens the connection again after a server ended, so that one fault does not hide the other requirements. */
  async revive(): Promise<void> {
    if (this.peer.alive !== false) return;
    const { log } = this.peer;
    await this.peer.close();
    this.peer = await this.options.fresh();
    for (const reply of log) this.earlier.add(reply);
    this.peer.log.unshift(...log);
  }

  get modern(): boolean {
    return this.peer.revision.era === 'modern';
  }

  get capabilities(): Json {
    return asObject(this.peer.opening.result?.['capabilities']);
  }

  declares(name: string): boolean {
    return isObject(this.capabilities[name]);
  }

  /** The value of `make`, made once. */
  once<T>(name: string, make: () => Promise<T>): Promise<T> {
    let value = this.kept.get(name) as Promise<T> | undefined;
    if (value === undefined) {
      value = make();
      this.kept.set(name, value);
    }
    return value;
  }

  /** All pages of a list; undefined if the server does not declare the capability. */
  async list(name: ListName): Promise<Listing | undefined> {
    if (!this.declares(CAPABILITY[name])) return undefined;
    return this.once(`list ${name}`, () => this.pages(name));
  }

  async pages(name: ListName, peer = this.peer): Promise<Listing> {
    const pages: Reply[] = [];
    let cursor: unknown;
    do {
      const reply = await peer.call(LIST_METHODS[name], isText(cursor) ? { cursor } : {});
      pages.push(reply);
      cursor = reply.result?.['nextCursor'];
    } while (isText(cursor) && pages.length < MAX_PAGES);
    return { items: pages.flatMap((page) => asList(page.result?.[name])).filter(isObject), pages };
  }

  /** Tools that may be called: those that declare themselves read-only, or any in active mode. */
  private async callable(): Promise<readonly Json[]> {
    const tools = (await this.list('tools'))?.items ?? [];
    return tools.filter(
      (tool) => isText(tool['name']) && (this.options.active || asObject(tool['annotations'])['readOnlyHint'] === true),
    );
  }

  /** Tools that may be called and need no arguments. */
  async freeTools(): Promise<readonly Json[]> {
    return (await this.callableAsTasks()).filter((tool) => taskSupport(tool as JsonObject) !== 'required');
  }

  /** Like `freeTools`, including the tools that run only as tasks. */
  async callableAsTasks(): Promise<readonly Json[]> {
    return (await this.callable()).filter((tool) => needsNothing(asObject(tool['inputSchema'])));
  }

  /** Calls of tools that need no arguments, at most three. */
  calls(): Promise<readonly ToolCall[]> {
    return this.once('calls', async () => {
      const calls: ToolCall[] = [];
      for (const tool of (await this.freeTools()).slice(0, MAX_CALLS)) {
        const meta = { progressToken: `progress-${calls.length}` };
        const reply = await this.peer.call('tools/call', { name: tool['name'], arguments: {} }, { meta });
        calls.push({ tool, reply });
      }
      return calls;
    });
  }

  /** A callable tool with required arguments, for a call that omits the arguments. */
  async strictTool(): Promise<Json | undefined> {
    return (await this.callable()).find(
      (tool) => asList(asObject(tool['inputSchema'])['required']).length > 0 && !hasMirroredHeader(tool),
    );
  }

  /** A callable tool with a parameter that is mirrored into a header. */
  async mirroredTool(): Promise<Json | undefined> {
    return (await this.callable()).find(hasMirroredHeader);
  }

  /** Reads the first resource of the list. */
  firstResource(): Promise<Reply | undefined> {
    return this.once('read', async () => {
      const first = (await this.list('resources'))?.items[0];
      return first === undefined ? undefined : this.peer.call('resources/read', { uri: first['uri'] });
    });
  }

  /** Gets the first prompt without required arguments. */
  firstPrompt(): Promise<Reply | undefined> {
    return this.once('get prompt', async () => {
      const prompts = (await this.list('prompts'))?.items ?? [];
      const free = prompts.find((prompt) =>
        asList(prompt['arguments']).every((each) => asObject(each)['required'] !== true),
      );
      return free === undefined ? undefined : this.peer.call('prompts/get', { name: free['name'], arguments: {} });
    });
  }
}

const hasMirroredHeader = (tool: Json): boolean =>
  Object.values(asObject(asObject(tool['inputSchema'])['properties'])).some(
    (property) => asObject(property)['x-mcp-header'] !== undefined,
  );

/** Whether a schema accepts an object without members, as far as its keywords tell. */
const needsNothing = (schema: Json): boolean =>
  asList(schema['required']).length === 0 &&
  !['anyOf', 'oneOf', 'allOf', 'minProperties', 'if'].some((keyword) => schema[keyword] !== undefined);
