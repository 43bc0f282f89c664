import { createHash } from 'node:crypto';
import type { Cards } from '../../core/a2a/cards/published-cards.js';
import type { CardKeys } from '../../identity/card-keys.js';
import { cardPayloads } from '../../protocol/a2a/canonical-card.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';

/** The number of cached signed cards. Signing is expensive, and the text of a card rarely changes. */
const MOST_SIGNED = 500;

/** The text of a response with the ETag of its content. */
export interface TaggedText {
  readonly etag: string;
  readonly text: Buffer;
}

/** Signs agent cards: one signature for each canonical form, computed once per content (S-6, G-13). */
export class CardSignatures {
  private readonly signed = new Map<string, Promise<Buffer>>();

  constructor(private readonly keys: CardKeys) {}

  async sign(cards: Cards, card: JsonObject): Promise<TaggedText> {
    const kid = await this.keys.kid();
    const etag = etagOf(`${kid}\n${JSON.stringify(card)}`);
    const known = this.signed.get(etag);
    if (known) return { etag, text: await known };
    const made = this.signedText(cards, card);
    this.signed.set(etag, made);
    made.catch(() => this.signed.delete(etag));
    const [oldest] = this.signed.keys();
    if (this.signed.size > MOST_SIGNED && oldest !== undefined) this.signed.delete(oldest);
    return { etag, text: await made };
  }

  private async signedText(cards: Cards, card: JsonObject): Promise<Buffer> {
    const jku = cards.beside('.well-known/jwks.json');
    const signatures = await Promise.all(
      cardPayloads(card).map(async (payload) => ({ ...(await this.keys.sign(payload, jku)) })),
    );
    return Buffer.from(JSON.stringify({ ...card, signatures }));
  }
}

export const etagOf = (text: string | Buffer): string =>
  createHash('sha256').update(text).digest('base64url').slice(0, 22);
