import type { Child } from '../../stdio/child-process.js';
import type { Start } from '../../stdio/supervisor-types.js';
import type { UpstreamContext } from '../upstream-context.js';
import type { Channel, ChannelEvents, Ticket } from './channel.js';
import { asProtocolError, endingOf } from './stdio-error-messages.js';

/** The channel to a legacy server over the pipes of its process. */
export class StdioChannel implements Channel {
  readonly correlates = false;
  readonly hears = true;
  protected events: ChannelEvents | undefined;
  private child: Child | undefined;

  constructor(
    private readonly context: UpstreamContext,
    private readonly start: Start,
  ) {}

  async open(events: ChannelEvents): Promise<void> {
    this.events = events;
    this.child = this.start({
      message: (line) => events.message(line, undefined),
      exit: (info) => events.closed(endingOf(this.context, info)),
    });
  }

  established(): void {}

  listen(): Promise<void> {
    return Promise.resolve();
  }

  send(message: Buffer, ticket?: Ticket, taken?: () => void): void {
    try {
      this.child!.send(message);
      taken?.();
    } catch (error) {
      taken?.();
      if (!ticket) return;
      this.events?.lost(ticket, asProtocolError(this.context, error));
    }
  }

  giveUp(why: string): void {
    this.child?.giveUp(why);
  }

  async close(): Promise<void> {
    await this.child?.stop();
  }
}
