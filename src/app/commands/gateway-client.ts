/** The MCP client of the command line: it lists and calls tools of a running gateway. */
import { VERSION } from '../product-info.js';

export interface ClientTool {
  readonly name: string;
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  readonly annotations?: Readonly<Record<string, unknown>> | undefined;
  readonly inputSchema: { readonly properties?: Readonly<Record<string, unknown>> | undefined };
}

export interface ClientToolResult {
  readonly content: readonly Readonly<Record<string, unknown>>[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean | undefined;
}

/** A question of a server during a call: a form, or a page to open. */
export interface Question {
  readonly message: string;
  readonly url?: string;
  readonly properties: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly required: readonly string[];
}

export type Answer =
  | { readonly action: 'accept'; readonly content?: object }
  | { readonly action: 'decline' | 'cancel' };

export interface GatewayClientOptions {
  readonly url: string;
  readonly token: string | undefined;
  /** Answers questions of servers. If absent, servers cannot ask. */
  readonly answer?: (question: Question) => Promise<Answer>;
}

export interface GatewayClient {
  tools(): Promise<readonly ClientTool[]>;
  call(name: string, args: object, options: CallOptions): Promise<ClientToolResult>;
}

export interface CallOptions {
  /** Time limit for a call without any message, in milliseconds. */
  readonly timeout: number;
  readonly progress?: (progress: {
    progress: number;
    total?: number | undefined;
    message?: string | undefined;
  }) => void;
}

/** Lists are bounded: a gateway that never ends its pages must not fill the memory. */
const MOST_PAGES = 1_000;

/** Connects to the MCP endpoint of a gateway, in the newest revision that both know, for the time of `work`. */
export async function withGateway<T>(
  { url, token, answer }: GatewayClientOptions,
  work: (gateway: GatewayClient) => Promise<T>,
): Promise<T> {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const client = new Client(
    { name: 'parley-cli', version: VERSION },
    {
      capabilities: answer ? { elicitation: { form: {}, url: {} } } : {},
      versionNegotiation: { mode: 'auto' },
      listMaxPages: MOST_PAGES,
    },
  );
  if (answer)
    client.setRequestHandler('elicitation/create', async ({ params }) => (await answer(questionOf(params))) as never);
  const headers: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  try {
    return await work({
      tools: async () => (await client.listTools()).tools as readonly ClientTool[],
      call: async (name, args, { timeout, progress }) =>
        (await client.callTool(
          { name, arguments: args as Record<string, unknown> },
          { timeout, resetTimeoutOnProgress: true, ...(progress && { onprogress: progress }) },
        )) as ClientToolResult,
    });
  } finally {
    await client.close().catch(() => {});
  }
}

function questionOf(params: object): Question {
  const {
    message = '',
    url,
    requestedSchema,
  } = params as {
    message?: string;
    url?: string;
    requestedSchema?: { properties?: Question['properties']; required?: string[] };
  };
  return {
    message,
    ...(url !== undefined && { url }),
    properties: requestedSchema?.properties ?? {},
    required: requestedSchema?.required ?? [],
  };
}
