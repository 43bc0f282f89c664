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
 * The URLs that a client agreed to open during one call. A modern server asks again until the elicitation is complete.
 * A client of the legacy era is asked only once, and the gateway repeats the call for this client (mcp.md 4.5).
 */
export class UrlElicitations {
  private readonly elicitations = new Map<string, UrlElicitation>();

  /** The answer to a repeated question; undefined if the client must be asked. */
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

  /** The ids of the elicitations of this call. They are complete when the server no longer asks for them. */
  ids(): string[] {
    return [...this.elicitations.values()].map(({ id }) => id);
  }

  /** The error after which the client may repeat the call later. */
  private giveUp(): UpstreamRpcError {
    const elicitations = [...this.elicitations.values()].map(({ id, question }) => ({
      ...question.params,
      mode: 'url',
      elicitationId: id,
    }));
    return new UpstreamRpcError(-32042, 'The opened page is not complete yet; call again when it is', { elicitations });
  }
}

function urlOf({ method, params }: InputRequest): string | undefined {
  const url = method === 'elicitation/create' && params?.['mode'] === 'url' ? params['url'] : undefined;
  return typeof url === 'string' ? url : undefined;
}
