import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Caller } from '../../caller.js';
import { type Seal, SealBroken } from '../../seal.js';
import type { Agent, Exchange } from '../agent.js';
import type { TaskKey, TaskRecord } from '../tasks/task-records.js';

export interface CallbacksOptions {
  readonly seal: Seal;
  /** The URL at which agents reach this gateway; undefined if unknown. */
  publicUrl(): string | undefined;
  /** The lifetime of a callback URL, in milliseconds. */
  readonly ttl: number;
}

/** The id of the gateway's push configuration at an agent. Each task has one such configuration. */
const CALLBACK_ID = 'parley';
/** The path prefix of callbacks. The rest of the path is a sealed value. */
export const CALLBACK_PATH = '/a2a/push';

export class CallbackRefused extends Error {
  override readonly name = 'CallbackRefused';

  constructor(readonly why: 'forged' | 'expired') {
    super(`the callback is ${why}`);
  }
}

/**
 * The callback URLs to which agents post updates of tasks (G-50). A URL contains the task and a digest of the task's
 * token, all sealed: the gateway stores nothing, every replica can open it, and the URL is useless without the token.
 */
export class Callbacks {
  constructor(private readonly options: CallbacksOptions) {}

  /**
   * Asks the agent to call back. Returns false if the agent refuses. The gateway must then follow the task by a stream
   * or by polling.
   */
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
          // Some agents send the token and others the credentials. The gateway accepts either.
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

  /** The task of a callback URL. Throws `CallbackRefused`. */
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
