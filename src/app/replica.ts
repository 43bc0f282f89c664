import { randomBytes } from 'node:crypto';
import { Mailbox } from '../cluster/mailbox.js';
import { PRESENCE, Presence } from '../cluster/presence.js';
import { BusStreams } from '../cluster/shared-streams.js';
import type { Config } from '../config/schema.js';
import { ALONE, type Cluster } from '../core/cluster.js';
import type { SharedStreams } from '../inbound/mcp/session/shared-streams.js';
import type { State } from '../state/index.js';
import type { Log } from '../telemetry/log.js';

/** This process as one of the replicas that share a state. */
export interface Replica {
  /** Whether other replicas share the state. */
  readonly shared: boolean;
  readonly cluster: Cluster;
  readonly streams: SharedStreams | undefined;
  leave(): Promise<void>;
}

/** Joins the replicas that share a database. A process with a database of its own is alone. */
export async function joinReplicas({ state: { db } }: Config, { bus }: State, log: Log): Promise<Replica> {
  if (db === undefined) return { shared: false, cluster: ALONE, streams: undefined, leave: async () => {} };
  const self = randomBytes(6).toString('hex');
  const presence = await Presence.enter(bus, self, PRESENCE, () => {
    log.warn({ replica: self }, 'this replica was away for longer than its lease; the others went on without it');
  });
  const mailbox = await Mailbox.open(bus, presence, log);
  log.info({ replica: self }, 'joined the replicas that share this state');
  return {
    shared: true,
    cluster: mailbox,
    streams: new BusStreams(bus, presence, log, mailbox),
    leave: async () => {
      mailbox.close();
      await presence.leave();
    },
  };
}
