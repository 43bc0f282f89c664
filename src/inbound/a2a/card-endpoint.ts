import { AgentCatalog, LINKSET } from '../../core/a2a/cards/agent-catalog.js';
import type { Cards } from '../../core/a2a/cards/published-cards.js';
import type { Caller } from '../../core/caller.js';
import type { CardKeys } from '../../identity/card-keys.js';
import { DECLARED_VERSIONS } from '../../protocol/a2a/declared-interfaces.js';
import { ERROR_PROFILES, type ErrorProfile, NATIVE, type Version } from '../../protocol/a2a/dialect.js';
import { dialect, hybridCard, legacyCard } from '../../protocol/a2a/index.js';
import type { AgentCard } from '../../protocol/a2a/model.js';
import { UpstreamRpcError } from '../../protocol/errors.js';
import type { JsonObject, JsonValue } from '../../protocol/jsonrpc/raw.js';
import type { Access, RequestContext, Route } from '../http/route.js';
import { sendBody, sendEmpty } from '../http/send-body.js';
import { agentCaller } from './caller.js';
import { CardSignatures, etagOf, type TaggedText } from './card-signatures.js';
import { restErrors, restType, sendRestError } from './error-response.js';
import { namedVersion } from './http-binding.js';
import { DEEP_RPC, ROOTS } from './paths.js';

/** The source of all cards for this endpoint. */
export interface CardReader {
  read<T>(caller: Caller, agent: string | undefined, work: () => Promise<T>): Promise<T>;
}

export interface CardEndpointOptions {
  readonly cards: Cards;
  readonly gateway: CardReader;
  readonly keys: CardKeys;
  /** Whether cards are readable without authentication. */
  readonly publicCards: boolean;
  /** Whether callers are identified. If so, responses for one caller must not be shared. */
  readonly identified: boolean;
  readonly profile?: ErrorProfile;
  /** How long readers may cache a card, in seconds. */
  readonly maxAge?: number;
}

const MAX_AGE = 300;

/**
 * The agent of a card; undefined for the routing agent. Names are registered in lower case; callers may use any case.
 */
const nameIn = ({ params }: RequestContext): string | undefined => params['card']?.toLowerCase();

/** `http`: the current card with HTTP interfaces only. */
type Shape = 'current' | 'old' | 'http';

/** Serves the agents' cards in each version's form, the catalog, and the gateway's public keys. */
export class CardEndpoint {
  private readonly signatures: CardSignatures;

  constructor(private readonly options: CardEndpointOptions) {
    this.signatures = new CardSignatures(options.keys);
  }

  routes(): Route[] {
    const open: Access = this.options.publicCards ? 'public' : 'user';
    const errors = restErrors(this.options.profile ?? ERROR_PROFILES[0]);
    const route = (path: string, access: Access, description: string, answer: Answer): Route => ({
      method: 'GET',
      path,
      access,
      errors,
      description,
      handle: (context) =>
        answer(context, agentCaller(context.principal, context.req.forwardedUrl)).catch(refused(context)),
    });
    const refused = (context: RequestContext) => (error: unknown) => {
      // The error table has no row for an error that the agent itself answered, so this error is sent from here.
      if (!(error instanceof UpstreamRpcError)) throw error;
      sendRestError(context, error, NATIVE, this.options.profile ?? ERROR_PROFILES[0]);
    };
    const card = (path: string, description: string, shape: Shape): Route =>
      route(path, open, description, (context, caller) => this.card(context, caller, nameIn(context), shape));
    const beneath = (base: string): Route[] => [
      card(`${base}/.well-known/agent-card.json`, 'A2A: the card of an agent', 'current'),
      card(`${base}/.well-known/agent.json`, 'A2A up to 0.2: the card of an agent', 'old'),
      card(`${base}/.well-known/agent-card-http.json`, 'A2A: the card without gRPC', 'http'),
    ];
    // The original card shows the real URL of the agent, so only callers may read it.
    const original = (base: string): Route =>
      route(
        `${base}/.well-known/original-card.json`,
        'user',
        'A2A: the card as the agent publishes it',
        (context, caller) => this.original(context, caller, nameIn(context) ?? ''),
      );
    return [
      route('/.well-known/jwks.json', 'public', 'The keys that sign cards', (context) => this.jwks(context)),
      route('/.well-known/api-catalog', open, 'The agents as a linkset', (context, caller) =>
        this.linkset(context, caller),
      ),
      route('/a2a/agents', 'user', 'The agents, with filters', (context, caller) => this.list(context, caller)),
      ...['', '/v1', ...ROOTS].flatMap(beneath),
      ...ROOTS.flatMap((root) => [...beneath(`${root}/{card}`), original(`${root}/{card}`)]),
      card('/.well-known/agents/{card}.json', 'A2A: the card of an agent', 'current'),
    ];
  }

  private async card(context: RequestContext, caller: Caller, agent: string | undefined, shape: Shape): Promise<void> {
    const cards = this.cardsFor(caller);
    const whole = await this.read(caller, agent, () =>
      agent === undefined ? cards.routingAgent(caller) : cards.agent(caller, agent),
    );
    const card = shape === 'http' ? overHttp(whole) : whole;
    const written = this.shaped(cards, card, agent, shape, namedVersion(context));
    await this.send(context, caller, await this.signatures.sign(cards, written));
  }

  private read<T>(caller: Caller, agent: string | undefined, work: () => Promise<T>): Promise<T> {
    return this.options.gateway.read(caller, agent, work);
  }

  private cardsFor({ gatewayUrl }: Caller): Cards {
    return this.options.cards.at(gatewayUrl);
  }

  /**
   * The card in the form its reader knows (G-14): by the version it names, otherwise by the old path, otherwise all
   * versions at once. Readers of versions that look for the extended card beside the URL in the card get a URL one step
   * deeper.
   */
  private shaped(
    cards: Cards,
    card: AgentCard,
    agent: string | undefined,
    shape: Shape,
    named: Version | 'unsupported' | undefined,
  ): JsonObject {
    // A reader of a future version finds the available versions in the card.
    const version = named === 'unsupported' ? undefined : named;
    const declared = DECLARED_VERSIONS.some((each) => each.version === version);
    if (version !== undefined && declared) return dialect(version).writeCard(card);
    if (version === undefined && shape !== 'old') return hybridCard(card);
    const url = cards.url(agent, DEEP_RPC.slice(1));
    const supportedInterfaces = card.supportedInterfaces.map((each) =>
      each.protocolBinding === 'JSONRPC' ? { ...each, url } : each,
    );
    const deep = { ...card, supportedInterfaces };
    return version === undefined ? legacyCard(deep) : dialect(version).writeCard(deep);
  }

  private async original(context: RequestContext, caller: Caller, agent: string): Promise<void> {
    const { cards } = this.options;
    const { card, signature, why } = await this.read(caller, agent, () => cards.original(caller, agent));
    const answer = { agent, signature, ...(why !== undefined && { why }), card: parsed(card), text: card };
    await this.send(context, caller, plain(answer));
  }

  private async list(context: RequestContext, caller: Caller): Promise<void> {
    const { query } = context;
    const of = (name: string): string | undefined => query.get(name) ?? undefined;
    const asked = { capability: of('capability'), skill: of('skill'), tag: of('tag'), q: of('q') };
    const catalog = new AgentCatalog(this.cardsFor(caller));
    await this.send(context, caller, plain(await this.read(caller, undefined, () => catalog.list(caller, asked))));
  }

  private async linkset(context: RequestContext, caller: Caller): Promise<void> {
    const catalog = new AgentCatalog(this.cardsFor(caller));
    const linkset = await this.read(caller, undefined, () => catalog.linkset(caller));
    await this.send(context, caller, plain(linkset), LINKSET);
  }

  private async jwks(context: RequestContext): Promise<void> {
    const keys = await this.options.keys.jwks();
    await this.send(context, undefined, plain(keys as unknown as JsonObject), 'application/jwk-set+json');
  }

  /** `caller` is undefined if the response is the same for everybody. */
  private async send(
    context: RequestContext,
    caller: Caller | undefined,
    { etag, text }: TaggedText,
    type = restType(context),
  ): Promise<void> {
    const { identified, maxAge = MAX_AGE } = this.options;
    const own = identified && caller !== undefined && caller.principal.key !== '';
    const headers = [
      ...context.headers,
      'Cache-Control',
      `${own ? 'private' : 'public'}, max-age=${maxAge}`,
      // A weak ETag, because signatures of the same content differ between replicas.
      'ETag',
      `W/"${etag}"`,
      'Vary',
      `A2A-Version, Accept${identified ? ', Authorization' : ''}`,
    ];
    if (isKnown(context.req.header('if-none-match'), etag)) {
      sendEmpty(context.res, 304, headers);
      return;
    }
    sendBody(context.res, 200, headers, type, [text]);
  }
}

/**
 * The card with only the interfaces that have the card's own origin. Some clients refuse any other card, and the
 * `host:port` address of a gRPC interface is not a URL.
 */
const overHttp = (card: AgentCard): AgentCard => ({
  ...card,
  supportedInterfaces: card.supportedInterfaces.filter(({ protocolBinding }) => protocolBinding !== 'GRPC'),
});

type Answer = (context: RequestContext, caller: Caller) => Promise<void>;

function plain(body: JsonObject): TaggedText {
  const text = Buffer.from(JSON.stringify(body));
  return { etag: etagOf(text), text };
}

function isKnown(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  return header.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === `"${etag}"`);
}

function parsed(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return null;
  }
}
