import type { Offer } from './quickstart.js';
import type { Reloadable } from './reload.js';
import type { Summary } from './summary.js';

/** A gateway that serves. */
export interface RunningGateway extends Reloadable {
  readonly url: string;
  /** Resolves when every server and agent has answered, or after so many milliseconds. */
  settled(milliseconds: number): Promise<void>;
  summary(): Summary;
  /** The tools of every server that has answered, under the names callers see. */
  offer(): Promise<Offer>;
  /** Logs every change of a server or an agent from now on. */
  reportChanges(): void;
  close(): Promise<void>;
}
