/** The keys of `views`: named selections of servers, tools, prompts and resources. */
import { group, list, map, oneOf, text } from './field.js';

const pattern = (fix: string) =>
  text({ description: 'One name or pattern; `*` matches any characters.', pattern: /\S/, what: 'is empty', fix });

const tool = pattern('name a tool, such as forecast, weather__forecast or weather__*');
const prompt = pattern('name a prompt, such as summary or docs__*');
const uri = pattern('write a URI, such as docs://handbook or docs://*');

const view = group('One view: a virtual MCP server at `/mcp/<name>`.', {
  description: text({ description: 'A sentence for people; clients do not see it.' }),
  servers: list(text({ description: 'The name of one server, or of one agent with skills.' }), {
    description: 'Servers of the view. Without `servers` and `groups` the view has all servers.',
  }),
  groups: list(text({ description: 'One group.' }), {
    description: 'Groups of servers (`servers.<name>.groups`), in addition to `servers`.',
  }),
  when: text({
    description:
      'A condition in CEL about the caller, such as `"analysts" in caller.groups`: for other callers the view does not ' +
      'exist; a caller also needs the right to use one of its servers.',
    pattern: /\S/,
    what: 'is empty',
    fix: 'write a condition, or remove the key',
  }),
  tools: group('The tools of the view, by the names of their servers, with or without the name of the server.', {
    allow: list(tool, { description: 'Tools to show, such as `weather__*`. Empty means all.' }),
    deny: list(tool, { description: 'Tools to hide; wins over `allow`.' }),
    rename: map(
      text({
        description: 'The new name.',
        pattern: /^[A-Za-z0-9_.-]{1,64}$/,
        what: 'is not a name for a tool of a view',
        fix: 'write up to 64 letters, digits, underscores, dashes and dots',
      }),
      {
        description: 'New names for tools, by `server__tool`. A new name gets no prefix, and the old name is gone.',
        keys: 'tool',
      },
    ),
  }),
  prompts: group('The prompts of the view.', {
    allow: list(prompt, { description: 'Prompts to show. Empty means all.' }),
    deny: list(prompt, { description: 'Prompts to hide; wins over `allow`.' }),
  }),
  resources: group('The resources and resource templates of the view, by URI.', {
    allow: list(uri, { description: 'Resources to show. Empty means all.' }),
    deny: list(uri, { description: 'Resources to hide; wins over `allow`.' }),
  }),
  naming: group('Names of tools and prompts in the view; default: as in `naming`.', {
    separator: oneOf(['__', '.', '-'], { description: "The text between the server's name and the tool's name." }),
    prefix: oneOf(['always', 'conflict', 'never'], { description: "When a name starts with the server's name." }),
  }),
  routing: group('How the view lists its tools; default: as in `routing`.', {
    exposure: oneOf(['full', 'search', 'hybrid', 'auto'], { description: 'As `routing.exposure`.' }),
    pinned: list(tool, { description: 'Like `routing.pinned`; used with `exposure`.' }),
  }),
});

export const views = map(view, {
  description:
    'Virtual servers, by name: each shows some servers, tools, prompts and resources at `/mcp/<name>`. A view cannot ' +
    'have the name of a server.',
  keys: 'server',
});

export const serverGroups = list(
  text({
    description: 'One group.',
    pattern: /^[A-Za-z0-9_.-]{1,64}$/,
    what: 'is not a name for a group',
    fix: 'write up to 64 letters, digits, underscores, dashes and dots',
  }),
  { description: 'The access groups of the server, by which `views` select it.' },
);
