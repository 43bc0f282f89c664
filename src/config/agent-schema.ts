import { VERSIONS } from '../protocol/a2a/dialect.js';
import { hostName, httpUrl } from './address-fields.js';
import { flag, group, list, oneOf, text } from './field.js';
import { ownPin } from './pin-schema.js';
import { agentAuth, forwardHeaders, headers } from './upstream-auth-schema.js';
import { ownProxy, ownTimeouts, ownTls } from './upstream-schema.js';

export const toolPattern = text({
  description: 'One name; `*` matches any characters.',
  pattern: /\S/,
  what: 'is empty',
  fix: 'name a tool as the gateway lists it, such as weather__forecast or weather__*',
});

export const agent = group('One A2A agent: a remote agent (`url`), or a set of MCP tools (`tools`).', {
  url: httpUrl({ description: "The agent's base URL, or the URL of its card." }),
  tools: list(toolPattern, {
    description: 'MCP tools of this gateway that become the skills of the agent; the gateway itself is the agent.',
  }),
  version: oneOf(['auto', ...VERSIONS] as readonly string[], {
    default: 'auto',
    description: 'The A2A version of the agent: `auto` takes the version on its card.',
  }),
  binding: oneOf(['auto', 'jsonrpc', 'rest', 'grpc'], {
    default: 'auto',
    description: 'The binding to use: `auto` takes the first binding on the card.',
  }),
  headers,
  auth: agentAuth,
  forwardHeaders,
  description: text({ description: 'Replaces the description on the card.' }),
  signatures: oneOf(['ignore', 'verify', 'require'], {
    default: 'verify',
    description:
      'Signatures on its card: `ignore` does not check them, `verify` records the result, `require` refuses an unsigned card.',
  }),
  keys: text({ description: 'The public keys of the signatures on its card: a JWKS as URL, path or JSON.' }),
  hosts: list(hostName({ description: 'One host.' }), {
    description: 'Allowed hosts of the interfaces on its card, besides the host of `url`.',
  }),
  mcp: flag({ default: true, description: 'Whether MCP clients see its skills as tools.' }),
  enabled: flag({ default: true, description: '`false` switches the agent off.' }),
  proxy: ownProxy,
  tls: ownTls,
  timeouts: ownTimeouts('Time limit for connecting.'),
  pin: ownPin,
});
