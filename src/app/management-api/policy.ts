/** `/api/v1/policy`: shows the rules, and explains decisions. */
import type { Operation } from '../../inbound/api/operation.js';
import { ref } from '../../inbound/api/schemas.js';
import { ProtocolError } from '../../protocol/errors.js';
import { CaseError, type PolicyCase, PolicyCases } from '../commands/policy-cases.js';
import type { Runtime } from '../runtime.js';

export function policyOperations(runtime: Runtime): Operation[] {
  return [
    {
      method: 'GET',
      path: '/api/v1/policy',
      access: 'admin',
      tag: 'Policy',
      description: 'The rules in effect, and the proposed ones',
      answer: { description: 'The policy', schema: ref('Anything') },
      run: () => {
        const { rules, mode, proposed } = runtime.live().policy;
        return { body: { mode, rules, proposed } };
      },
    },
    {
      method: 'POST',
      path: '/api/v1/policy/explain',
      access: 'admin',
      tag: 'Policy',
      description: 'Says what the policy decides about a call, without making the call',
      body: { type: 'object', required: ['caller'], description: 'A case as in the files of parley policy test.' },
      answer: { description: 'The decision, with every rule', schema: ref('Anything') },
      run: ({ body }) => {
        try {
          return { body: new PolicyCases(runtime.live()).explain(body as unknown as PolicyCase) };
        } catch (error) {
          if (!(error instanceof CaseError)) throw error;
          throw new ProtocolError('invalid_settings', `The case ${error.message}`, { data: { problems: [] } });
        }
      },
    },
  ];
}
