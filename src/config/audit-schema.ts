import { flag, group, integer, list, oneOf, text } from './field.js';

/** The keys of the audit trail. */
export const audit = group(
  'The audit trail in the database: who did what, with which decision and outcome. Records contain no bodies, arguments ' +
    'or secrets. See [audit.md](audit.md).',
  {
    enabled: flag({
      default: true,
      description: 'Whether the gateway records refused authentication, changes by operators, and calls.',
    }),
    calls: oneOf(['auto', 'all', 'none'], {
      default: 'auto',
      description: 'Whether calls are recorded; `auto` records them if callers are identified, that is, with `auth`.',
    }),
    exclude: list(
      text({
        description: 'One method; `*` matches any characters.',
        pattern: /\S/,
        what: 'is empty',
        fix: 'write an MCP method or an A2A operation, such as tools/list, notifications/* or GetTask',
      }),
      {
        description: 'Methods whose calls are not recorded, unless the call is refused.',
        default: ['ping'],
      },
    ),
    arguments: oneOf(['hash', 'none'], {
      default: 'hash',
      description:
        'What a record contains of the arguments of a call: a hash with a key of `state.keys`, which hides them from ' +
        'readers without the key, or nothing.',
    }),
    onFailure: oneOf(['open', 'closed'], {
      default: 'open',
      description:
        'When the database cannot take a record: `open` continues, keeps records in memory up to `spool`, and logs losses; ' +
        '`closed` refuses the call or change before it happens, and every call waits for one write.',
    }),
    spool: integer({
      default: 10_000,
      min: 100,
      max: 1_000_000,
      description: 'Maximum number of records in memory that wait for the database.',
    }),
    retentionDays: integer({
      min: 0,
      max: 36_500,
      preset: '`state.retention.auditDays`',
      description: 'Days to keep a record; 0 keeps it for ever.',
    }),
  },
);
