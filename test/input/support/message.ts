/** JSON-RPC for tests: every member may be missing, and the assertions check for it. */
export interface Members {
  readonly content: readonly { readonly type: string; readonly text: string }[];
  readonly contents: readonly { readonly uri: string; readonly text: string }[];
  readonly tools: readonly { readonly name: string }[];
  readonly capabilities: Members & Readonly<Record<string, unknown>>;
  readonly serverInfo: { readonly name: string; readonly version: string };
  readonly protocolVersion: string;
  readonly supportedVersions: readonly string[];
  readonly endpoints: Readonly<Record<string, string>>;
  readonly transport: string;
  readonly status: unknown;
  readonly resultType: string;
  readonly isError: boolean;
  readonly nextCursor: string;
  readonly notifications: Readonly<Record<string, unknown>>;
  readonly progress: number;
  readonly progressToken: string | number;
  readonly message: string;
  readonly level: string;
  readonly requestId: string | number;
  readonly reason: string;
  readonly outcome: string;
  readonly server: string;
  readonly missing: readonly string[];
  readonly header: string;
  readonly supported: readonly string[];
  readonly requested: unknown;
  readonly retryAfter: string;
  readonly uri: string;
  readonly text: string;
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly _meta: Readonly<Record<string, unknown>>;
}

export interface Message {
  readonly jsonrpc: string;
  readonly id: string | number | null;
  readonly method: string;
  readonly params: Members;
  readonly result: Members;
  readonly error: { readonly code: number; readonly message: string; readonly data: Members };
}

export const textOf = ({ result }: Message): string => result.content[0]!.text;
