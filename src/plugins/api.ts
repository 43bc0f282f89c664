/**
 * The contract between the gateway and plugins, for authors: the package exports this file as `parley/plugin`. It imports
 * nothing, so that its types stand alone.
 */

export type JsonValue = string | number | boolean | null | JsonObject | JsonValue[];
export interface JsonObject {
  [key: string]: JsonValue | undefined;
}

/** The version of this contract. A plugin states the version that it was written for. */
export const API_VERSION = 1;

export const HOOKS = ['onRequest', 'onResponse', 'onError', 'onEvent', 'onList', 'onAudit'] as const;
export type Hook = (typeof HOOKS)[number];

/** The caller of a request, as the gateway authenticated it. */
export interface PluginCaller {
  /** The owner of all state that is kept for the caller. State of a plugin that depends on the caller uses this key. */
  readonly key: string;
  readonly issuer: string;
  readonly subject: string;
  readonly roles: readonly string[];
  readonly groups: readonly string[];
  readonly scopes: readonly string[];
  readonly tenant: string | undefined;
}

/** One request of either protocol. A hook returns its changes; writing to these objects changes nothing. */
export interface PluginCall {
  readonly protocol: 'mcp' | 'a2a';
  /** The MCP method or the A2A operation, such as `tools/call` or `SendMessage`. */
  readonly method: string;
  /** The id of the request in log lines and errors. */
  readonly requestId: string;
  readonly caller: PluginCaller;
  /**
   * Requests with different accounts carry different tokens or headers for servers, so a result for one account must not
   * answer a request of another, also not if callers share results. Empty if requests carry nothing of their caller.
   */
  readonly account?: string;
  /** The server or agent of the call; undefined if the gateway answers the call itself. */
  readonly server: string | undefined;
  /** The kind of target: `tool`, `prompt`, `resource`, `agent`, `task`, `method`, or `catalog` for the gateway itself. */
  readonly kind: string | undefined;
  /** The name that the server gives the target. */
  readonly name: string | undefined;
  /** The tool as its server lists it, if the gateway knows it. */
  readonly tool: JsonObject | undefined;
  /**
   * Whether the credential of the caller shows this tool. Credentials of one caller may have different rights, so state
   * that came from a tool must not reach a credential that does not see the tool. Only for plugins in the gateway.
   */
  sees?(server: string, tool: string): Promise<boolean>;
  /** The parameters of the request, parsed on the first read. */
  readonly params: JsonObject;
  /** The arrival time of the request, by `performance.now()`. */
  readonly began: number;
  /** Aborted when the time of this hook is over, or when the client no longer waits. */
  readonly signal: AbortSignal;
}

/** A result on its way to the client. */
export interface PluginResponse {
  /** The bytes of the result, known without parsing it. */
  readonly size: number;
  /** The result, parsed on the first read. */
  readonly result: JsonObject;
}

/** An error on its way to the client, instead of a result. */
export interface PluginError {
  /** The JSON-RPC code of the server or agent; undefined if the gateway gave the error a reason. */
  readonly code?: number;
  /** The gateway's reason, such as `upstream_timeout`; undefined if the server or agent gave the error a code. */
  readonly reason?: string;
  readonly message: string;
  /** The data that the server or agent sent with the error. */
  readonly data?: JsonValue;
}

/** An item of a list: a tool, a prompt, a resource, a resource template, or an A2A task. */
export interface ListItem {
  /** The server of the item; undefined for resources in the list of several servers, and for tasks. */
  readonly server: string | undefined;
  /** The name that the server gives a tool or a prompt; otherwise the URI or the id. */
  readonly name: string;
  /** The item as the client gets it. Its name, URI or id must not change. */
  readonly item: JsonObject;
}

/** Refuses the call. The caller reads the sentence. */
export interface Deny {
  readonly deny: string;
}

/**
 * `reply` answers the call without its server; the hooks of later plugins and `onResponse` of this plugin do not run.
 * `params` replaces members of the parameters; members that name the target or belong to the protocol cannot change.
 */
export type RequestDecision = Deny | { readonly reply: JsonObject } | { readonly params: JsonObject };
/** `result` replaces the whole result. */
export type ResponseDecision = Deny | { readonly result: JsonObject };
/** `error` replaces the message and the data. The code and the reason cannot change. */
export interface ErrorDecision {
  readonly error: PluginError;
}
export type EventDecision = { readonly event: JsonObject } | { readonly drop: true };
/** The items in the order in which the client gets them; items that are missing are left out. */
export interface ListDecision {
  readonly items: readonly ListItem[];
}

type Maybe<T> = T | undefined | Promise<T | undefined>;

/** The surroundings of a plugin. */
export interface PluginContext {
  /** The name of the plugin in the configuration. */
  readonly name: string;
  /** The `options` of the configuration. */
  readonly options: Readonly<Record<string, string>>;
  readonly log: PluginLog;
}

export interface PluginLog {
  debug(message: string, fields?: object): void;
  info(message: string, fields?: object): void;
  warn(message: string, fields?: object): void;
  error(message: string, fields?: object): void;
}

/** A plugin is a plain object. Every hook may return a promise. A hook that returns nothing changes nothing. */
export interface Plugin {
  readonly apiVersion: 1;
  /**
   * A URI scheme whose resources the plugin answers itself: `resources/read` of such a URI reaches its `onRequest` for
   * every server, and no server sees the request.
   */
  readonly resourceScheme?: string;
  /** Called once before the first call. If it fails, the gateway does not start. */
  setup?(context: PluginContext): void | Promise<void>;
  /** Called once when the gateway stops. */
  close?(): void | Promise<void>;
  /** Before the call reaches its server or agent, after authentication, policy and approval. */
  onRequest?(call: PluginCall): Maybe<RequestDecision>;
  /** After a successful call. Plugins see results in the reverse of their order. */
  onResponse?(call: PluginCall, response: PluginResponse): Maybe<ResponseDecision>;
  /**
   * After a call that failed: for the error of its server or agent, and for an error of the gateway about the call.
   * Plugins see errors in the reverse of their order.
   */
  onError?(call: PluginCall, error: PluginError): Maybe<ErrorDecision>;
  /**
   * For each event of a running call: an MCP notification with `method` and `params`, or an A2A stream event. The status
   * message of an MCP task that its server hosts is an event with the method `notifications/tasks`.
   */
  onEvent?(call: PluginCall, event: JsonObject): Maybe<EventDecision>;
  /** For each list that a client reads. It changes the list only: an item that it leaves out can still be called. */
  onList?(call: PluginCall, items: readonly ListItem[]): Maybe<ListDecision>;
  /** For each record of the audit trail. Nothing waits for it, and it changes nothing. */
  onAudit?(record: JsonObject): void | Promise<void>;
}
