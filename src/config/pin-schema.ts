/** The keys for pinned definitions. */
import { oneOf } from './field.js';

const MODES = ['off', 'warn', 'quarantine'] as const;

export const pin = oneOf(MODES, {
  default: 'warn',
  description:
    'The treatment of a tool, prompt, resource template or introduction whose definition differs from its first ' +
    'definition: `warn` logs the change, `quarantine` withholds the item until `parley pins approve`, `off` compares ' +
    'nothing.',
});

/** The override of `pin` for one server or agent. */
export const ownPin = oneOf(MODES, { description: 'Overrides `pin` for this server or agent.' });
