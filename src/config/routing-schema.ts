import { group, list, oneOf, text } from './field.js';

/** How endpoints of several servers show their tools. */
export const ROUTING = group('How the endpoint for all servers shows its tools, and how it finds them.', {
  exposure: oneOf(['full', 'search', 'hybrid', 'auto'], {
    default: 'full',
    description:
      '`full` lists every tool; `search` lists `search_tools` and `call_tool` only; `hybrid` adds the pinned tools; ' +
      '`auto` is `hybrid` above 40 tools or about 10,000 tokens, otherwise `full`.',
  }),
  pinned: list(text({ description: 'One name or pattern, such as `github__*`.' }), {
    description: 'Tools that `hybrid` and `auto` list beside the search, by name or pattern.',
  }),
});
