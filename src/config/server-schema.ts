import { REVISION_DATES } from '../protocol/mcp/revisions/index.js';
import { filePath, httpUrl } from './address-fields.js';
import { duration, flag, group, integer, list, map, oneOf, secret, text } from './field.js';
import { openapi } from './openapi-schema.js';
import { ownPin } from './pin-schema.js';
import { serverReplicas } from './replica-schema.js';
import { callerHeaders, forwardHeaders, headers, serverAuth } from './upstream-auth-schema.js';
import { CONNECT_DESCRIPTION, ownProxy, ownTimeouts, ownTls } from './upstream-schema.js';
import { serverGroups } from './view-schema.js';

const ownTool = text({
  description: 'One name; `*` matches any characters.',
  pattern: /\S/,
  what: 'is empty',
  fix: "name a tool as the server itself does, without the server's name, such as forecast or read_*",
});

const offeredTools = group('The tools that the gateway offers, their names, and the trust in their descriptions.', {
  allow: list(ownTool, {
    description: "Tools to offer, by the server's names; `*` matches any characters. Empty means all.",
  }),
  deny: list(ownTool, { description: "Tools to hide, by the server's names; wins over `allow`." }),
  rename: map(
    text({
      description: 'The new name.',
      pattern: /^[A-Za-z0-9_.-]{1,128}$/,
      what: 'is not a name for a tool',
      fix: 'write up to 128 letters, digits, underscores, dashes and dots',
    }),
    { description: "New names for tools, by the server's names; the prefix is added to the new name.", keys: 'tool' },
  ),
  trust: integer({
    default: 100,
    min: 1,
    max: 100,
    description:
      'How much search trusts the descriptions of the server, in percent: the scores of its tools are multiplied by it.',
  }),
});

export const server = group(
  'One MCP server: an HTTP endpoint (`url`), a program that speaks over stdio (`command`), or an HTTP API (`openapi`).',
  {
    url: httpUrl({ description: "The server's MCP endpoint." }),
    ...serverReplicas,
    openapi,
    command: text({
      description: 'The program to start, without a shell.',
      pattern: /\S/,
      what: 'is empty',
      fix: 'name a program, such as npx, uvx, node or docker',
    }),
    args: list(text({ description: 'One argument.' }), { description: "The program's arguments." }),
    env: map(secret({ description: 'The value of one variable.' }), {
      description: "Variables added to the program's environment.",
      keys: 'variable',
      dropsNull: true,
    }),
    envFile: filePath({ description: 'A file of `NAME=value` lines added to `env`; `env` wins.' }),
    cwd: filePath({ description: "The program's working directory; default: that of the gateway." }),
    headers,
    auth: serverAuth,
    forwardHeaders,
    callerHeaders,
    transport: oneOf(['auto', 'http', 'sse'], {
      default: 'auto',
      description: 'The transport of `url`: detected, Streamable HTTP only, or the older HTTP+SSE only.',
    }),
    revision: oneOf(['auto', 'modern', 'legacy', ...REVISION_DATES] as readonly string[], {
      default: 'auto',
      description: 'The MCP revision of the server: detected, the newest of an era, or exactly one.',
    }),
    invocation: flag({
      default: true,
      description: 'Whether callers may call its tools; the tools are listed in any case.',
    }),
    enabled: flag({ default: true, description: '`false` switches the server off.' }),
    pool: integer({
      default: 4,
      min: 1,
      max: 256,
      description:
        'Number of sessions for calls during which the server may ask the client a question (stdio and HTTP+SSE).',
    }),
    proxy: ownProxy,
    tls: ownTls,
    timeouts: ownTimeouts(CONNECT_DESCRIPTION),
    breaker: group(
      'Refuses calls at once while the server cannot be reached. Errors of tools and of callers do not count.',
      {
        failures: integer({ default: 5, min: 1, max: 1000, description: 'Failures in a row to reach the server.' }),
        pause: duration({ default: '2s', description: 'Time until one call is let through as a trial.' }),
      },
    ),
    tools: offeredTools,
    groups: serverGroups,
    lint: oneOf(['off', 'warn', 'strict'], {
      default: 'warn',
      description:
        'Whether the gateway checks names, descriptions and schemas of the tools: `warn` logs tools that are hard to use for ' +
        'models, `strict` does not offer them.',
    }),
    validation: oneOf(['off', 'warn', 'strict'], {
      default: 'off',
      description:
        'Whether the gateway checks the arguments of calls against the input schemas of the tools: `warn` logs what is wrong, ' +
        '`strict` refuses the call and tells the model.',
    }),
    pin: ownPin,
  },
);
