/** Every probe of A2A agents by its name. */
import type { Probes } from './probe.js';
import { CARD_PROBES } from './probes-card.js';
import { FORMAT_OBSERVATIONS, FORMAT_PROBES } from './probes-format.js';
import { PUSH_PROBES, STREAM_PROBES } from './probes-streams.js';
import { TASK_PROBES } from './probes-tasks.js';

export const A2A_PROBES: Probes = {
  ...CARD_PROBES,
  ...TASK_PROBES,
  ...STREAM_PROBES,
  ...PUSH_PROBES,
  ...FORMAT_PROBES,
};

/** Probes that examine all received messages. They run after all other probes. */
export const A2A_OBSERVATIONS: Probes = FORMAT_OBSERVATIONS;
