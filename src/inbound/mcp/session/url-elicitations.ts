import { backoff, sleep } from '../../../core/timing.js';
import { UpstreamRpcError } from '../../../protocol/errors.js';
import type { JsonObject } from '../../../protocol/jsonrpc/raw.js';
import type { InputRequest } from '../../../protocol/mcp/model.js';

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 5_000;
const MOST_TRIES = 6;

interface UrlElicitation {
  readonly id: string;
  readonly question: InputRequest;
  tries: number;
}

/**
 * URLs a client agreed to open during one call. A modern server asks again until the elicitation is over; its client of
 * 2025-11-25 is asked once, and the call is tried again for it (mcp.md 4.5).
 */
export class UrlElicitations {
  private readonly elicitations = new Map<string, UrlElicitation>();

  /** How to answer a question without asking: undefined where the client has to be asked. */
  async repeated(question: InputRequest): Promise<JsonObject | undefined> {
    const elicitation = this.elicitations.get(urlOf(question) ?? '');
    if (!elicitation) return undefined;
    if (++elicitation.tries > MOST_TRIES) throw this.giveUp();
    await sleep(backoff(elicitation.tries, { first: FIRST_PAUSE, longest: LONGEST_PAUSE }));
    return { action: 'accept' };
  }

  agreed(question: InputRequest, id: string): void {
    const url = urlOf(question);
    if (url !== undefined) this.elicitations.set(url, { id, question, tries: 0 });
  }

  /** The elicitations that are over once the server no longer asks for them. */
  ids(): string[] {
    return [...this.elicitations.values()].map(({ id }) => id);
  }

  /** The client may come back later with the same call. */
  private giveUp(): UpstreamRpcError {
    const elicitations = [...this.elicitations.values()].map(({ id, question }) => ({
      ...question.params,
      mode: 'url',
      elicitationId: id,
    }));
    return new UpstreamRpcError(-32042, 'What was opened is not finished yet; call again when it is', { elicitations });
  }
}

function urlOf({ method, params }: InputRequest): string | undefined {
  const url = method === 'elicitation/create' && params?.['mode'] === 'url' ? params['url'] : undefined;
  return typeof url === 'string' ? url : undefined;
}
