import type { Lease as ChildLease } from '../../stdio/lease.js';
import type { Supervisor } from '../../stdio/supervisor.js';
import type { ModernPipe } from '../modern-pipe.js';
import type { LegacySession } from './session.js';

/** The processes of one server, each with what is spoken on its pipes. */
export type SessionSupervisor = Supervisor<LegacySession | ModernPipe>;
export type Lease = ChildLease<LegacySession | ModernPipe>;
