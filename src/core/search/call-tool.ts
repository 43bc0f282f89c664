import { ProtocolError } from '../../protocol/errors.js';
import type { Call } from '../gateway.js';
import { CALL_TOOL, SEARCH_TOOLS } from './meta-tool-schemas.js';

export const isCallTool = ({ method, params }: Call): boolean =>
  method === 'tools/call' && params.get('name') === CALL_TOOL;

/**
 * The call of the real tool that a `call_tool` names. All later steps see only the real tool: interceptors, logs,
 * limits and request states use its name and arguments.
 */
export function calledTool(call: Call): Call {
  const wrapped = call.params.object('arguments');
  const name = wrapped?.get('name');
  if (!wrapped || typeof name !== 'string') {
    throw new ProtocolError(
      'invalid_params',
      '"name" of call_tool must be a string: a name from a result of search_tools',
    );
  }
  if (name === CALL_TOOL || name === SEARCH_TOOLS) {
    throw new ProtocolError('invalid_params', `call_tool does not call "${name}"; call it directly`);
  }
  // The bytes of the arguments pass unchanged.
  const params = call.params.edit({ name: JSON.stringify(name), arguments: wrapped.raw('arguments') ?? '{}' });
  // The client's headers mirror the arguments of `call_tool`, not those of the real tool, so they are dropped.
  return { ...call, params, header: undefined };
}
