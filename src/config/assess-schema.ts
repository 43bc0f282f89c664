/** The keys of `assess`: the conformance of servers and agents. */
import { duration, group, integer, oneOf } from './field.js';

export const assess = group('The conformance of servers and agents. See [assess.md](assess.md).', {
  onRegister: oneOf(['off', 'warn', 'refuse'], {
    default: 'off',
    description:
      'Whether a server or agent that is registered at run time is assessed first, with probes that only read: `warn` logs ' +
      'a score below `below`, `refuse` also refuses the registration.',
  }),
  below: integer({ default: 80, min: 0, max: 100, description: 'The score that `onRegister` compares with.' }),
  time: duration({ default: '20s', description: 'Time limit for the assessment of a registration.' }),
  samplePercent: integer({
    default: 0,
    min: 0,
    max: 100,
    description:
      'The part of the calls whose results the gateway examines for violations of the protocol, in percent; the counts of ' +
      'each server and agent are in its state and in the metrics.',
  }),
});
