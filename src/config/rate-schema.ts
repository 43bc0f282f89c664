import { duration, group, integer, list, oneOf, text } from './field.js';

const rate = group('One limit. It needs `requests`, `concurrent`, or both.', {
  per: list(oneOf(['caller', 'tool', 'server', 'session'], { description: 'A property of calls.' }), {
    description:
      'The limit counts the calls of each combination of these properties separately, such as `[caller]` or `[caller, tool]`. Empty: one count for all calls.',
  }),
  requests: integer({
    min: 1,
    max: 100_000_000,
    description: 'Maximum number of calls in each `interval`, over all replicas.',
  }),
  interval: duration({ default: '1m', description: 'The interval of `requests`.' }),
  concurrent: integer({
    min: 1,
    max: 1_000_000,
    description:
      'Maximum number of concurrent calls, which the replicas divide among themselves; each has at least one.',
  }),
  when: text({
    description: 'The calls that the limit counts, as a condition in CEL, see `docs/policy.md`; default: every call.',
    pattern: /\S/,
    what: 'is empty',
    fix: 'write a condition, or leave the key out',
  }),
});

/** The keys of `limits` about rates and overload. */
export const rateLimits = {
  rates: list(rate, {
    description:
      'Limits on the rate of calls and on concurrent calls. Beyond a limit a call gets 429 with `Retry-After`.',
  }),
  overload: group(
    'When the gateway refuses calls to stay responsive: 503 with `Retry-After`. Health checks and administrative routes are always served.',
    {
      eventLoopDelay: duration({
        default: '1s',
        description:
          'Calls are refused while several measurements in a row show at least this delay of the event loop.',
      }),
      heapPercent: integer({
        default: 95,
        min: 50,
        max: 100,
        description:
          'Calls are refused while at least this part of the largest possible heap is in use, in percent; 100: never.',
      }),
    },
  ),
};
