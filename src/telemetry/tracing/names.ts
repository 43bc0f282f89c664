/**
 * The names of spans and attributes. The names for MCP follow the semantic conventions for generative AI, whose status
 * is still "development". They may therefore change, and are in this file only. The names for A2A follow the same
 * pattern.
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
  health: 'mcp.health.status',
  a2aMethod: 'a2a.method',
  a2aAgent: 'a2a.agent.name',
  a2aVersion: 'a2a.protocol.version',
  a2aStream: 'a2a.stream',
  a2aEvents: 'a2a.events',
  a2aSuccess: 'a2a.success',
  a2aLeft: 'a2a.client_disconnected',
  routeWhy: 'parley.route.why',
  routeSkill: 'parley.route.skill',
  routeUnsure: 'parley.route.unsure',
  routeNext: 'parley.route.next',
  routeNextScore: 'parley.route.next_score',
  requestId: 'parley.request_id',
  caller: 'parley.caller',
  outcome: 'parley.outcome',
  evalPlugin: 'eval.plugin',
  evalScore: 'eval.score',
  evalStatus: 'eval.status',
  evalDuration: 'eval.duration_ms',
  evalType: 'eval.invocation_type',
  evaluationName: 'gen_ai.evaluation.name',
  evaluationScore: 'gen_ai.evaluation.score.value',
  evaluationLabel: 'gen_ai.evaluation.score.label',
} as const;

export const EXECUTE_TOOL = 'execute_tool';
export const INVOKE_AGENT = 'invoke_agent';
/** The names of spans of registrations and probes begin with these words. */
export const REGISTRATION = { server: 'mcp.server.register', agent: 'a2a.agent.register' } as const;
export const HEALTH_PROBE = 'mcp.server.health';
/** The name of an evaluation's span begins with this word. */
export const EVALUATE = 'evaluate';
/** The error type of a tool that reports its failure in its result. */
export const TOOL_ERROR = 'tool_error';
/** The instrumentation scope of all spans. */
export const SCOPE = 'parley';

/** The name of a span: the method, and the name of its target if the number of targets is small. */
export const spanName = (method: string, target: string | undefined): string =>
  target === undefined ? method : `${method} ${target}`;
