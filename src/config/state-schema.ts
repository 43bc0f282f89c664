import { urlField } from './address-fields.js';
import { group, integer, list, secret } from './field.js';

export const state = group('Storage of state that outlives a process. Default: an embedded database in `data`.', {
  db: urlField(
    ['postgres:', 'postgresql:'],
    'URL',
    'write a postgres:// URL, or leave the key out for the embedded database',
    { description: 'A PostgreSQL database; several replicas need it.' },
  ),
  directDb: urlField(
    ['postgres:', 'postgresql:'],
    'URL',
    'write a postgres:// URL, or leave the key out if `db` is the address of the server itself',
    {
      description:
        'The address of the database server itself, if `db` is the address of a pooler in transaction mode such as ' +
        'PgBouncer; notifications, leases and migrations use it, because they need a connection that stays the same.',
    },
  ),
  bus: urlField(
    ['redis:', 'rediss:', 'redis+cluster:', 'rediss+cluster:'],
    'URL',
    'write a redis:// or rediss:// URL (redis+cluster:// for a Redis Cluster), or leave the key out',
    {
      description:
        'A Redis or Valkey server for streams and leases, beside `db`; default: `db`. `redis+cluster://` and the ' +
        'address of any node for a Redis Cluster, whose other nodes are found from there.',
    },
  ),
  keys: list(
    secret({
      description: 'One key.',
      pattern: /^[\x21-\x7e]{32,}$/,
      what: 'is not a key',
      fix: 'write at least 32 visible characters, such as the output of: openssl rand -base64 32',
    }),
    { description: 'Keys for sealed values, the same on every replica. The first key seals; every key opens.' },
  ),
  retention: group('How long records without an expiry are kept.', {
    auditDays: integer({
      default: 365,
      min: 0,
      max: 36_500,
      description: 'Days to keep an audit record; 0 keeps it for ever.',
    }),
    deadDeliveryDays: integer({
      default: 30,
      min: 0,
      max: 36_500,
      description: 'Days to keep a webhook delivery that failed for good; 0 keeps it for ever.',
    }),
  }),
});
