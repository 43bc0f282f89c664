import type { JsonObject } from '../../protocol/jsonrpc/raw.js';

export const SEARCH_TOOLS = 'search_tools';
export const CALL_TOOL = 'call_tool';

/** The most results of one search. */
export const MOST_RESULTS = 20;
export const DEFAULT_RESULTS = 5;

/** The tools of the gateway itself in `search` and `hybrid` mode, as `tools/list` shows them. */
export const META_TOOLS: readonly JsonObject[] = [
  {
    name: SEARCH_TOOLS,
    title: 'Search tools',
    description:
      'Find tools that you can use. Describe ONE need in plain words, for example "send an email". ' +
      'For a task of several steps, search once for each step. Then call a found tool with call_tool.',
    inputSchema: {
      type: 'object',
      properties: {
        query: { type: 'string', description: 'One need: what the tool has to do' },
        limit: { type: 'integer', minimum: 1, maximum: MOST_RESULTS, default: DEFAULT_RESULTS },
        server: { type: 'string', description: 'Search the tools of this server only' },
        detail: {
          type: 'string',
          enum: ['brief', 'full'],
          default: 'full',
          description: 'full includes input schemas',
        },
      },
      required: ['query'],
    },
    annotations: { readOnlyHint: true, openWorldHint: false },
  },
  {
    name: CALL_TOOL,
    title: 'Call a tool',
    description: 'Call a tool that search_tools found.',
    inputSchema: {
      type: 'object',
      properties: {
        name: { type: 'string', description: 'The name of the tool, as search_tools gives it' },
        arguments: { type: 'object', description: 'Arguments that match the input schema of the tool' },
      },
      required: ['name'],
    },
  },
];
