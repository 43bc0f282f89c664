/** Requirements that count in profiles only: of other products, of performance, and how current a server is. */
import { ANY, HTTP, type RowOf, row } from './row.js';

const OPENAI = 'OpenAI';
const HYGIENE = 'Performance';
const CURRENCY = 'Spec currency';
const OPENAI_DOCS = 'https://platform.openai.com/docs/mcp';

// biome-ignore format: one requirement per line pair
export const PROFILE_ROWS: readonly RowOf[] = [
  row('OAI-01', 'MUST', 'A-E', ANY, OPENAI, 'openaiNames', OPENAI_DOCS, 'Tool names have 1 to 64 characters of A-Z, a-z, 0-9, underscore and hyphen.',
    'Rename the tools.'),
  row('OAI-02', 'MUST', 'A-E', ANY, OPENAI, 'openaiDescriptions', OPENAI_DOCS, 'Each tool has a description.',
    'Write a description for the model.'),
  row('OAI-03', 'MUST', 'A-E', ANY, OPENAI, 'inputSchema', OPENAI_DOCS, 'Each inputSchema has type object.',
    'Write {"type": "object"} for a tool without arguments.'),
  row('OAI-04', 'SHOULD', 'A-E', ANY, OPENAI, 'openaiText', OPENAI_DOCS, 'The first content block of a result is text.',
    'Add a text block.'),
  row('OAI-05', 'MUST', 'A-E', ANY, OPENAI, 'utf8', OPENAI_DOCS, 'Results are UTF-8.',
    'Encode JSON as UTF-8.'),
  row('OAI-06', 'MUST', 'B-E', HTTP, OPENAI, 'tokenRequired', OPENAI_DOCS, 'A request without the bearer token gets 401.',
    'Require Authorization: Bearer.'),
  row('PERF-01', 'SHOULD', 'A-E', ANY, HYGIENE, 'quickLists', 'server/tools', 'Lists are answered within two seconds.',
    'Keep lists in memory.'),
  row('PERF-02', 'SHOULD', 'A-E', ANY, HYGIENE, 'smallLists', 'server/utilities/pagination', 'One page of a list has at most 256 KiB.',
    'Split lists into pages.'),
  row('PERF-03', 'SHOULD', 'A-E', ANY, HYGIENE, 'shortDescriptions', 'server/tools', 'A description of a tool has at most 2,000 characters.',
    'Shorten descriptions; each of them costs tokens in every conversation.'),
  row('PERF-04', 'SHOULD', 'B-E', HTTP, HYGIENE, 'keepAlive', 'basic/transports', 'Connections stay open between requests.',
    'Do not send Connection: close.'),
  row('PERF-05', 'SHOULD', 'E', ANY, HYGIENE, 'usefulCache', 'server/utilities/caching', 'Lists may be cached: their ttlMs is above 0.',
    'Choose a ttlMs.'),
  row('CUR-01', 'SHOULD', 'A-E', ANY, CURRENCY, 'newestRevision', 'basic/versioning', 'The server speaks the newest revision.',
    'Support the newest revision.'),
  row('CUR-02', 'SHOULD', 'A-E', ANY, CURRENCY, 'newestLegacy', 'basic/lifecycle', 'The server speaks the newest revision of the legacy era.',
    'Support clients of the legacy era.'),
  row('CUR-03', 'SHOULD', 'A-E', ANY, CURRENCY, 'severalRevisions', 'basic/lifecycle', 'The server speaks more than one revision.',
    'Support older clients.'),
];
