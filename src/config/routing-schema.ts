import { httpUrl } from './address-fields.js';
import { duration, flag, group, integer, list, oneOf, secret, text } from './field.js';
import { replicaRouting } from './replica-schema.js';

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
  ...replicaRouting,
  learn: oneOf(['off', 'shadow', 'on'], {
    default: 'off',
    description:
      'Whether search learns from calls of identified callers that succeed after a search: `off` records nothing, `shadow` ' +
      'learns and measures with no effect on results, `on` ranks by it.',
  }),
  keepTexts: flag({
    default: false,
    description: 'Whether learned outcomes keep the words of searches, in addition to word stems and hashes.',
  }),
  vectors: group('Vectors beside words in tool search, from a service that the operator chooses.', {
    url: httpUrl({
      description:
        'The OpenAI-compatible endpoint, such as `http://127.0.0.1:8080/v1/embeddings`, which gets the texts of searches and ' +
        'tools; without it, searches compare words only.',
    }),
    model: text({ default: 'default', description: 'The name of the model at the endpoint.' }),
    key: secret({ description: 'The key for the endpoint, sent as a bearer token.' }),
    weight: integer({ default: 40, min: 0, max: 100, description: 'The share of vectors in a score, in percent.' }),
    timeout: duration({ default: '500ms', description: 'How long a search waits for the vector of its query.' }),
  }),
});
