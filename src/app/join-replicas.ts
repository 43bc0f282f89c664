import { randomBytes } from 'node:crypto';
import { MEMBERSHIP_TIMES, Membership } from '../cluster/membership.js';
import { ReplicaMessages } from '../cluster/replica-messages.js';
import { BusStreams } from '../cluster/session-streams/shared-session-streams.js';
import type { Config } from '../config/schema.js';
import { ALONE, type Cluster } from '../core/cluster.js';
import type { SharedStreams } from '../inbound/mcp/session/shared-streams.js';
import type { State } from '../state/index.js';
import type { Log } from '../telemetry/log.js';

/** This process as a member of the replicas that share a database. */
export interface Replica {
  /** Whether other replicas share the database. */
  readonly shared: boolean;
  readonly cluster: Cluster;
  readonly streams: SharedStreams | undefined;
  /** The number of replicas that are alive, including this replica. */
  readonly replicas: () => number;
  leave(): Promise<void>;
}

/** Joins the replicas that share the configured database. A process with an embedded database runs alone. */
export async function joinReplicas({ state: { db } }: Config, { bus }: State, log: Log): Promise<Replica> {
  if (db === undefined)
    return { shared: false, cluster: ALONE, streams: undefined, replicas: () => 1, leave: async () => {} };
  const self = randomBytes(6).toString('hex');
  const membership = await Membership.join(bus, self, MEMBERSHIP_TIMES, () => {
    log.warn({ replica: self }, 'the lease of this replica expired: the other replicas took over its work');
  });
  const messages = await ReplicaMessages.open(bus, membership, log);
  log.info({ replica: self }, 'joined the replicas that share this database');
  return {
    shared: true,
    cluster: messages,
    replicas: () => membership.count,
    streams: new BusStreams(bus, membership, log, messages),
    leave: async () => {
      messages.close();
      await membership.leave();
    },
  };
}
