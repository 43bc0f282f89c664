/** `/api/v1/audit`: reads and verifies the audit trail. */
import type { Operation } from '../../inbound/api/operation.js';
import { listOf, PAGE_QUERY, pageOf } from '../../inbound/api/paging.js';
import { ref } from '../../inbound/api/schemas.js';
import { ProtocolError } from '../../protocol/errors.js';
import { matcherOf } from '../commands/audit-reader.js';
import type { Runtime } from '../runtime.js';

/** Limit on the records that a request reads in order to find matching records. */
const SCANNED = 20_000;

export function auditOperations({ state }: Runtime): Operation[] {
  const pattern = (what: string) => ({
    description: `${what}; \`*\` matches any characters.`,
    schema: { type: 'string' },
  });
  return [
    {
      method: 'GET',
      path: '/api/v1/audit',
      access: 'admin',
      tag: 'Audit',
      description: 'The audit trail in the order of time, over all replicas',
      query: {
        ...PAGE_QUERY,
        ...{ caller: pattern('The caller'), server: pattern('The server or agent'), tool: pattern('The tool') },
        ...{ decision: pattern('The decision'), kind: pattern('The kind of record') },
        since: { description: 'Milliseconds since 1970, inclusive.', schema: { type: 'integer' } },
        until: { description: 'Milliseconds since 1970, exclusive.', schema: { type: 'integer' } },
      },
      answer: { description: 'One page; it may be empty and have a next page', schema: listOf(ref('AuditRecord')) },
      run: async ({ query }) => {
        const { limit, after } = pageOf(query);
        const { caller, server, tool, decision, kind } = query;
        const matches = matcherOf({ caller, server, tool, decision, kind });
        const from = after === '' ? timeOf('since', query['since']) : Number(after.split(' ')[0]);
        const until = timeOf('until', query['until']);
        const found: { at: number; chain: string; seq: number }[] = [];
        let passed = after === '';
        let scanned = 0;
        let last: string | undefined;
        for await (const record of state.audit.read({
          ...(from !== undefined && { since: from }),
          ...(until !== undefined && { until }),
        })) {
          const key = `${record.at} ${record.chain} ${record.seq}`;
          if (!passed) {
            passed = key === after || record.at > Number(after.split(' ')[0]);
            if (key === after) continue;
          }
          if (found.length === limit || ++scanned > SCANNED)
            return {
              body: { items: found, ...(last !== undefined && { next: Buffer.from(last).toString('base64url') }) },
            };
          last = key;
          if (matches(record.value)) found.push(record);
        }
        return { body: { items: found } };
      },
    },
    {
      method: 'GET',
      path: '/api/v1/audit/verify',
      access: 'admin',
      tag: 'Audit',
      description: 'Checks the hashes and signatures of the audit trail',
      answer: { description: 'The result', schema: ref('Anything') },
      run: async () => ({ body: await state.audit.verify() }),
    },
  ];
}

function timeOf(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (!/^\d{1,15}$/.test(value)) throw new ProtocolError('invalid_envelope', `${name} is a number of milliseconds`);
  return Number(value);
}
