/** The pinned definitions, for the commands of operators. They use the database directly, also while a gateway runs. */
import type { Config } from '../../config/schema.js';
import type { AuditActor, AuditTrail } from '../../core/audit-trail.js';
import type { PinDetail, State } from '../../state/index.js';
import { withCommandStorage } from './command-storage.js';

export { visibleText } from '../../core/pinning/suspicious-text.js';

export type { PinDetail };

/** Opens the storage of the configuration for the time of `work`. */
export const withPins = <T>(config: Config, work: (pins: PinCommands) => Promise<T>): Promise<T> =>
  withCommandStorage(config, ({ state, audit, by }) => work(new PinCommands(state.pins, audit, by)));

export class PinCommands {
  constructor(
    private readonly pins: State['pins'],
    private readonly audit: AuditTrail,
    private readonly by: AuditActor,
  ) {}

  list(server?: string, name?: string): Promise<PinDetail[]> {
    return this.pins.list(server?.toLowerCase(), name);
  }

  /** Approves the definition that `list` showed. Returns false if the item has changed since then. */
  approve(pin: PinDetail): Promise<boolean> {
    const { server, kind, name, hash: from, seen: to } = pin;
    return this.audit.change(
      { ...this.by, action: 'pin.approve', subject: name, details: { server, kind, from, to } },
      () => this.pins.approve(pin),
      (approved) => (approved ? {} : { outcome: 'error', reason: 'changed_since' }),
    );
  }

  forget(server: string, name?: string): Promise<number> {
    const from = server.toLowerCase();
    return this.audit.change(
      { ...this.by, action: 'pin.forget', subject: name ?? from, details: { server: from } },
      () => this.pins.forget(from, name),
      (removed) => (removed > 0 ? { details: { removed } } : undefined),
    );
  }
}
