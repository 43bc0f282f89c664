import type { CallContext } from '../core/call.js';
import type { EndedCall } from './observed-calls.js';

/** The arguments of a tool or prompt, or the request to an agent, as JSON text. Nothing is parsed or copied. */
export function argumentsText(context: CallContext): Buffer | string | undefined {
  if (context.protocol === 'mcp') return context.call.params.raw('arguments');
  const { text, value } = context.call.request;
  return text ?? JSON.stringify(value);
}

/** The result as JSON text; undefined for a failure, for a stream, and for an MCP result of more than `most` bytes. */
export function resultText({ result, bytes }: EndedCall, most: number): Buffer | string | undefined {
  if (result?.kind === 'complete') return (bytes ?? 0) > most ? undefined : result.result.bytes();
  return result?.kind === 'result' ? (result.result.text ?? JSON.stringify(result.result.value)) : undefined;
}
