import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Caller } from '../../caller.js';
import { type Seal, SealBroken } from '../../seal.js';
import type { Agent, Exchange } from '../agent.js';
import type { TaskKey, TaskRecord } from '../tasks/task-records.js';

export interface CallbacksOptions {
  readonly seal: Seal;
  /** Where agents reach this gateway; undefined where nobody knows. */
  publicUrl(): string | undefined;
  /** How long an agent may call back, in milliseconds. */
  readonly ttl: number;
}

/** The gateway's own configuration at an agent; a task has one. */
const CALLBACK_ID = 'parley';
/** The path of callbacks; what follows is sealed. */
export const CALLBACK_PATH = '/a2a/push';

export class CallbackRefused extends Error {
  override readonly name = 'CallbackRefused';

  constructor(readonly why: 'forged' | 'expired') {
    super(`the callback is ${why}`);
  }
}

/**
 * Where agents post news of tasks to (G-50). The address names the task and holds a digest of the task's own token, all
 * sealed: nothing has to be kept, any replica can tell, and an address without its token is worth nothing.
 */
export class Callbacks {
  constructor(private readonly options: CallbacksOptions) {}

  /** Asks the agent to call back; false where it will not, so that its task has to be followed by stream or by asking. */
  async ask(agent: Agent, caller: Caller, record: TaskRecord, exchange: Exchange): Promise<boolean> {
    const url = this.options.publicUrl();
    if (url === undefined) return false;
    const facts = agent.known() ?? (await agent.facts().catch(() => undefined));
    if (facts?.can.push !== true) return false;
    const token = randomBytes(32).toString('base64url');
    const names = [record.agent, record.owner, record.id, digest(token).toString('base64url')];
    const sealed = this.options.seal.close('callback', '', names, this.options.ttl);
    try {
      await agent.setCallback(
        caller,
        {
          id: CALLBACK_ID,
          taskId: record.upstreamId,
          url: `${url.replace(/\/+$/, '')}${CALLBACK_PATH}/${sealed}`,
          // Some agents send the one and some the other; either proves it.
          token,
          authentication: { scheme: 'Bearer', credentials: token },
        },
        exchange,
      );
      return true;
    } catch {
      return false;
    }
  }

  /** The task an address is for. Throws `CallbackRefused`. */
  address(sealed: string): { readonly key: TaskKey; proves(token: string | undefined): boolean } {
    let names: unknown;
    try {
      names = this.options.seal.open('callback', '', sealed);
    } catch (error) {
      if (error instanceof SealBroken) throw new CallbackRefused(error.why);
      throw error;
    }
    const [agent, owner, id, expected] = names as [string, string, string, string];
    return {
      key: { agent, owner, id },
      proves: (token) => token !== undefined && timingSafeEqual(digest(token), Buffer.from(expected, 'base64url')),
    };
  }
}

const digest = (token: string): Buffer => createHash('sha256').update(token).digest();
