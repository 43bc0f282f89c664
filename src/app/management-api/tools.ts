import { callerOf } from '../../core/caller.js';
import { ALL_SERVERS, type Call, type Gateway, oneServer, plainCall } from '../../core/gateway.js';
import type { ApiRequest, Operation } from '../../inbound/api/operation.js';
import { listOf, PAGE_QUERY, paged, pageOf } from '../../inbound/api/paging.js';
import { ref } from '../../inbound/api/schemas.js';
import { ProtocolError } from '../../protocol/errors.js';
import { type JsonObject, RawObject } from '../../protocol/jsonrpc/raw.js';

export interface ToolsOptions {
  readonly gateway: Pick<Gateway, 'call'>;
  /** Whether the caller may know of a server. */
  knows(request: ApiRequest, server: string): Promise<boolean>;
}

const TAG = 'Tools';

/** The tools of a caller. Both routes use the call pipeline, so the same rules hold as for MCP. */
export function toolOperations({ gateway, knows }: ToolsOptions): Operation[] {
  const run = async (request: ApiRequest, method: string, params: JsonObject, server?: string): Promise<JsonObject> => {
    const { req } = request.context;
    const view = server === undefined ? ALL_SERVERS : oneServer(server);
    const about = { requestId: req.id, address: req.clientAddress };
    const call: Call = { ...plainCall(method, RawObject.from(params), view, about), whole: true };
    const outcome = await gateway.call(callerOf(request.principal), call);
    if (outcome.kind === 'complete' || outcome.kind === 'task') return outcome.result.value() as JsonObject;
    if (outcome.kind === 'input_required')
      throw new ProtocolError('not_bridgeable', 'The tool asks its caller a question; call it with an MCP client');
    const { error } = outcome;
    throw error instanceof ProtocolError ? error : new ProtocolError('upstream_error', error.message);
  };
  return [
    {
      method: 'GET',
      path: '/api/v1/tools',
      access: 'user',
      tag: TAG,
      description: 'The tools that the caller may see',
      query: {
        ...PAGE_QUERY,
        server: { description: 'Only the tools of this server, under its own names.', schema: { type: 'string' } },
      },
      answer: { description: 'One page', schema: listOf(ref('Tool')) },
      errors: [404],
      run: async (request) => {
        const server = request.query['server']?.toLowerCase();
        if (server !== undefined && !(await knows(request, server)))
          throw new ProtocolError('not_found', `There is no server ${JSON.stringify(server)}`);
        const { tools } = (await run(request, 'tools/list', {}, server)) as { tools?: { name: string }[] };
        return { body: paged(tools ?? [], pageOf(request.query), ({ name }) => name) };
      },
    },
    {
      method: 'POST',
      path: '/api/v1/tools/call',
      access: 'user',
      tag: TAG,
      description: 'Calls a tool and returns its result',
      body: {
        type: 'object',
        required: ['name'],
        additionalProperties: false,
        properties: { name: { type: 'string', minLength: 1, maxLength: 512 }, arguments: { type: 'object' } },
      },
      answer: { description: 'The result of the tool', schema: ref('Anything') },
      errors: [404],
      run: async (request) => {
        const { name, arguments: given = {} } = request.body as { name: string; arguments?: JsonObject };
        return { body: await run(request, 'tools/call', { name, arguments: given }) };
      },
    },
  ];
}
