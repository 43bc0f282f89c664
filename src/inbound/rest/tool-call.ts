import type { Outcome, ServerGateway } from '../../core/gateway.js';
import { oneServer } from '../../core/gateway.js';
import { ProtocolError, type UpstreamRpcError } from '../../protocol/errors.js';
import { gathered, quoted } from '../../protocol/jsonrpc/json-pieces.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import type { Implementation } from '../../protocol/mcp/model.js';
import { NEWEST_LEGACY } from '../../protocol/mcp/revisions/index.js';
import { encodeResult } from '../../protocol/mcp/translate/result.js';
import type { RequestContext } from '../http/route.js';
import { restCall, restCaller, sendBytes } from './rest-request.js';

export interface ToolCall {
  readonly server: string;
  /** The server's own name of the tool. */
  readonly tool: string;
  /** The arguments as JSON text. */
  readonly arguments: Buffer;
}

const EMPTY = Buffer.from('{}');

/** The `arguments` member of a body, unparsed. */
export function argumentsIn(body: RawObject): Buffer {
  const given = body.raw('arguments');
  if (given === undefined || body.is('arguments', 'null')) return EMPTY;
  if (!body.startsWith('arguments', '{')) throw new ProtocolError('invalid_params', '"arguments" must be an object');
  return given;
}

/** Calls a tool through the pipeline. Throws the failure of the call. */
export async function callTool(gateway: ServerGateway, context: RequestContext, call: ToolCall): Promise<RawObject> {
  const params = RawObject.build([
    ['name', Buffer.from(quoted(call.tool))],
    ['arguments', call.arguments],
  ]);
  const made = restCall(context, 'tools/call', params, oneServer(call.server));
  return resultOf(await gateway.call(restCaller(context), made));
}

function resultOf(outcome: Outcome): RawObject {
  switch (outcome.kind) {
    case 'complete':
      return outcome.result;
    case 'error':
      throw failureOf(outcome.error);
    case 'task':
      throw new ProtocolError('not_bridgeable', 'The tool answered with a task; call the tool at /mcp instead');
    case 'input_required':
      outcome.parked?.abandon('the endpoint of the caller cannot relay questions');
      throw new ProtocolError(
        'not_bridgeable',
        'The call asks its caller a question, which this endpoint cannot relay; call the tool at /mcp instead',
      );
  }
}

/** The failure of a call, for callers of REST routes. */
export function failureOf(error: ProtocolError | UpstreamRpcError): ProtocolError {
  if (error instanceof ProtocolError) return error;
  return new ProtocolError('tool_invocation_failed', error.message, { data: { code: error.code } });
}

/**
 * Sends a tool's result: its own members, and the members that clients of RouteIQ read (`status`, `tool_name`,
 * `server_id`, `result`). The bytes of the result are not parsed.
 */
export function sendToolResult(
  context: RequestContext,
  info: Implementation,
  { server, tool }: ToolCall,
  result: RawObject,
): void {
  const answer = result.edit({
    status: result.is('isError', 'true') ? '"error"' : '"success"',
    tool_name: quoted(tool),
    server_id: quoted(server),
    result: result.raw('structuredContent') ?? result.raw('content') ?? 'null',
    ...(!result.has('isError') && { isError: 'false' }),
  });
  sendBytes(context, plainResult(answer, info));
}

/** A result in the form that clients of REST routes know, without the members of the newest revision. */
export const plainResult = (result: RawObject, info: Implementation): Buffer[] =>
  gathered(encodeResult('tools/call', result, NEWEST_LEGACY, info));
