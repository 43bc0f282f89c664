/** The keys of `reload`: when the gateway reads its configuration again. */
import { flag, group } from './field.js';

export const reload = group(
  'When a running gateway reads its configuration again, besides SIGHUP and the administrative route.',
  {
    watch: flag({
      default: true,
      description:
        'Whether the gateway watches its configuration file and applies a changed file after validation; a file with ' +
        'errors changes nothing.',
    }),
  },
);
