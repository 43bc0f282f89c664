/** A2A 0.2: 0.3 without signatures on cards, without mTLS, and with the extended card on a plain GET. */
import { dialectOf } from '../v0_3/index.js';

export const v0_2 = dialectOf({
  id: '0.2',
  version: '0.2',
  shape: 'schema',
  card: '0.2',
  lacks: ['GetExtendedAgentCard'],
});
