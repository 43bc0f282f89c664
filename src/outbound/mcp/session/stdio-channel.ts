import type { Start } from '../../stdio/lease.js';
import type { Child } from '../../stdio/process.js';
import type { Channel, ChannelEvents, Ticket } from './channel.js';
import { asProtocolError } from './stdio-problem.js';

/** A process that speaks the handshake era on its pipes. */
export class StdioChannel implements Channel {
  readonly correlates = false;
  private events!: ChannelEvents;
  private child: Child | undefined;

  constructor(
    private readonly name: string,
    private readonly start: Start,
  ) {}

  async open(events: ChannelEvents): Promise<void> {
    this.events = events;
    this.child = this.start({
      message: (line) => events.message(line, undefined),
      exit: ({ code, signal }) =>
        events.closed(signal ? `its process was ended by ${signal}` : `its process ended with code ${code}`),
    });
  }

  established(): void {}

  listen(): void {}

  send(message: Buffer, ticket?: Ticket): void {
    try {
      this.child!.send(message);
    } catch (error) {
      if (!ticket) return;
      this.events.lost(ticket, asProtocolError(this.name, error));
    }
  }

  async close(): Promise<void> {
    await this.child?.stop();
  }
}
