/**
 * The names of spans and attributes. Those of MCP follow the semantic conventions for generative AI, whose status is
 * still "development", so they may change: only this file has them. Those of A2A follow the same manner.
 */
export const ATTRIBUTES = {
  method: 'mcp.method.name',
  tool: 'gen_ai.tool.name',
  prompt: 'gen_ai.prompt.name',
  operation: 'gen_ai.operation.name',
  agent: 'gen_ai.agent.name',
  resource: 'mcp.resource.uri',
  revision: 'mcp.protocol.version',
  rpcId: 'jsonrpc.request.id',
  rpcStatus: 'rpc.response.status_code',
  errorType: 'error.type',
  transport: 'network.transport',
  server: 'mcp.server.name',
  success: 'mcp.success',
  a2aMethod: 'a2a.method',
  a2aAgent: 'a2a.agent.name',
  a2aVersion: 'a2a.protocol.version',
  a2aStream: 'a2a.stream',
  a2aEvents: 'a2a.events',
  a2aSuccess: 'a2a.success',
  a2aLeft: 'a2a.client_disconnected',
  requestId: 'parley.request_id',
  caller: 'parley.caller',
  outcome: 'parley.outcome',
} as const;

export const EXECUTE_TOOL = 'execute_tool';
export const INVOKE_AGENT = 'invoke_agent';
/** The error type of a tool that reports its failure in its result. */
export const TOOL_ERROR = 'tool_error';
/** The instrumentation scope of all spans. */
export const SCOPE = 'parley';

/** The name of a span: the method, and the name of its target where there are few of them. */
export const spanName = (method: string, target: string | undefined): string =>
  target === undefined ? method : `${method} ${target}`;
