import { GATEWAY } from '../../core/caller.js';
import { NEWEST_REQUEST_FORMAT } from '../../protocol/a2a/request-format.js';
import { ProtocolError } from '../../protocol/errors.js';
import { isObject, type JsonObject } from '../../protocol/jsonrpc/raw.js';
import { type HttpClient, type HttpHeaders, headerOf, httpTarget } from '../http/index.js';
import type { AgentContext } from './agent-context.js';
import { credentialOf } from './agent-credential.js';
import { subject, unavailable } from './agent-errors.js';
import { tryJson } from './agent-reply.js';
import { exchange as exchangeHttp, type WholeReply } from './http-exchange.js';
import { targetWith } from './request-headers.js';

const CARD = '/.well-known/agent-card.json';
const OLD_CARD = '/.well-known/agent.json';

/** Time limits for one address and for all of them. A caller learns within 15 s that an agent cannot be reached. */
const ONE_FETCH = 5_000;
const ALL_FETCHES = 12_000;
const CARD_LIMIT = 1024 * 1024;

/** Default, minimum and maximum lifetime of a card. */
const MAX_AGE = 300_000;
const LEAST_AGE = 10_000;
const MOST_AGE = 24 * 3_600_000;

/** A card as received, with the facts that its next request needs. */
export interface FetchedCard {
  readonly url: string;
  readonly text: string;
  readonly card: JsonObject;
  readonly etag: string | undefined;
  readonly modified: string | undefined;
  readonly staleAt: number;
}

/** A server answers, but serves no card at any of the URLs that were tried. */
export class NoCard extends ProtocolError {}

/** The base URL of an agent, from its base URL or from the URL of its card. */
export function baseOf(url: string): string {
  const base = new URL(url);
  base.hash = '';
  const { pathname } = base;
  for (const path of [CARD, OLD_CARD]) {
    if (pathname.endsWith(path)) {
      base.pathname = pathname.slice(0, -path.length);
      base.search = '';
      return base.href.replace(/\/$/, '');
    }
  }
  return pathname.endsWith('.json') ? base.origin : base.href.replace(/\/$/, '');
}

/**
 * The URLs where a card may be (C-6): the given URL, then the well-known paths below it and those of its origin. The
 * root of an origin comes last, because it is the least likely place.
 */
export function cardPlaces(url: string): string[] {
  const given = new URL(url);
  const base = new URL(baseOf(url));
  const root = base.pathname.replace(/\/+$/, '');
  const places = [CARD, OLD_CARD].map((path) => `${base.origin}${root}${path}`);
  if (root !== '') places.push(`${base.origin}${CARD}`, `${base.origin}${OLD_CARD}`);
  if (given.pathname === '/') places.push(given.href);
  else places.unshift(given.href);
  return [...new Set(places)];
}

/** Finds an agent's card and remembers its URL. */
export class CardSource {
  private found: string | undefined;

  constructor(
    private readonly context: AgentContext,
    private readonly http: HttpClient,
    private readonly url: string,
  ) {}

  /** Fetches the card. Returns `before` if the card has not changed (C-5). Throws `upstream_unavailable`. */
  async fetch(before?: FetchedCard): Promise<FetchedCard> {
    const until = Date.now() + ALL_FETCHES;
    if (this.found !== undefined) {
      const again = await this.tryPlace(this.found, before, until);
      if (again) return again;
    }
    const answers: string[] = [];
    for (const place of cardPlaces(this.url)) {
      if (place === this.found) continue;
      if (Date.now() >= until)
        throw unavailable(this.context, 'fetching its card took too long; it may be busy or stuck');
      const card = await this.tryPlace(place, undefined, until, answers);
      if (!card) continue;
      this.found = place;
      return card;
    }
    throw new NoCard(
      'upstream_unavailable',
      `${subject(this.context)} has no agent card (${[...new Set(answers)].join(', ') || 'nothing was found'}); ` +
        'check its URL, which must be the URL of the agent or of its card',
      { outcome: 'not_executed', data: { agent: this.context.name } },
    );
  }

  private async tryPlace(
    place: string,
    before: FetchedCard | undefined,
    until: number,
    answers: string[] = [],
  ): Promise<FetchedCard | undefined> {
    let reply: WholeReply;
    try {
      reply = await this.get(place, before, until);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      // Without a connection, no other path of the server can work. A timeout or an invalid answer may concern only
      // this path.
      if (error.detail.outcome === 'not_executed') throw error;
      answers.push(error.reason === 'upstream_timeout' ? 'no answer' : 'no card');
      return undefined;
    }
    const { status, headers, body } = reply;
    const staleAt = Date.now() + maxAge(headers);
    if (status === 304 && before) return { ...before, staleAt };
    const card = status === 200 ? tryJson(body) : undefined;
    if (!isObject(card) || !isCard(card)) {
      answers.push(status === 200 ? 'no card' : `HTTP ${status}`);
      return undefined;
    }
    return {
      url: place,
      text: body.toString('utf8'),
      card,
      etag: headerOf(headers, 'etag'),
      modified: headerOf(headers, 'last-modified'),
      staleAt,
    };
  }

  private async get(place: string, before: FetchedCard | undefined, until: number): Promise<WholeReply> {
    const time = Math.max(1, Math.min(ONE_FETCH, until - Date.now()));
    const credential = await credentialOf(this.context, GATEWAY);
    const headers = ['accept', 'application/json', 'A2A-Version', NEWEST_REQUEST_FORMAT.named!, ...credential.headers];
    if (before?.etag !== undefined) headers.push('if-none-match', before.etag);
    else if (before?.modified !== undefined) headers.push('if-modified-since', before.modified);
    const limits = { idle: time, total: time, limit: CARD_LIMIT };
    const reply = await exchangeHttp({
      http: this.http,
      target: targetWith(httpTarget(place), credential),
      method: 'GET',
      headers,
      agent: this.context,
      ...limits,
    });
    return reply!;
  }
}

/** A name alone does not identify a card, because other JSON documents have a name too. */
const isCard = (card: JsonObject): boolean =>
  typeof card['name'] === 'string' &&
  ['supportedInterfaces', 'supported_interfaces', 'url', 'skills', 'capabilities'].some(
    (key) => card[key] !== undefined,
  );

function maxAge(headers: HttpHeaders): number {
  const said = headerOf(headers, 'cache-control') ?? '';
  if (/\bno-(?:cache|store)\b/i.test(said)) return LEAST_AGE;
  const [, seconds] = /\bmax-age=(\d+)/i.exec(said) ?? [];
  if (seconds === undefined) return MAX_AGE;
  return Math.min(MOST_AGE, Math.max(LEAST_AGE, Number(seconds) * 1000));
}
