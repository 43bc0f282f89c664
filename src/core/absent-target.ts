import { ProtocolError } from '../protocol/errors.js';
import { type ItemTarget, unknownAgent } from './admission.js';

/** The error for an absent target. A target that the caller may not see gets the same error (S3). */
export function absentTarget(method: string, { kind, server, name, offered = name }: ItemTarget): ProtocolError {
  switch (kind) {
    case 'tool':
      return new ProtocolError('tool_not_found', `Unknown tool: ${offered}`, { data: { name: offered, server } });
    case 'prompt':
      return new ProtocolError('prompt_not_found', `Unknown prompt: ${name}`, { data: { name } });
    case 'resource':
      return new ProtocolError('resource_not_found', `Resource not found: ${name}`, { data: { uri: name } });
    case 'task':
      return new ProtocolError('task_not_found', 'Unknown task');
    case 'method':
      return new ProtocolError('method_not_found', `Method not found: ${method}`);
    case 'agent':
      return unknownAgent(name);
    case 'server':
      return new ProtocolError('not_found', `There is no server "${name}"`);
  }
}
