/** Makes sequential stateless calls at every replica for the duration of a test. None of them may fail. */
import { ModernClient, textOf } from '../../era-bridge/support/clients.js';
import { sleep } from '../../era-bridge/support/wire.js';
import { ALICE, type Replica } from './replicas.js';

export class Traffic {
  readonly failures: string[] = [];
  calls = 0;
  private going = true;
  private readonly done: Promise<unknown>;
  private worst = 0;

  constructor(replicas: readonly Replica[], tool: string) {
    this.done = Promise.all(replicas.map((replica) => this.run(replica, tool)));
  }

  private async run(replica: Replica, tool: string): Promise<void> {
    const client = new ModernClient(replica.mcp, {}, ALICE);
    while (this.going) {
      const key = `stateless ${++this.calls}`;
      const began = performance.now();
      const said = await client.call(tool, { key }).then(textOf, (error: Error) => error.message);
      this.worst = Math.max(this.worst, performance.now() - began);
      if (said !== `${key} done`) this.failures.push(said);
      await sleep(25);
    }
  }

  /** Ends the traffic; returns the longest time of a call. */
  async stop(): Promise<number> {
    this.going = false;
    await this.done;
    return this.worst;
  }
}
