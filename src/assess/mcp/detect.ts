/** Finds the eras, revisions and transports of an MCP server. */
import { HTTP_SSE, LEGACY, MODERN, type Revision } from '../../protocol/mcp/revisions/index.js';
import { asList } from '../json.js';
import type { Transport } from '../requirement.js';
import type { HttpWire } from '../wire/http-wire.js';
import type { Pace } from '../wire/pace.js';
import type { Reply } from '../wire/reply.js';
import { openSse } from '../wire/sse-channel.js';
import { type Channel, ChannelPeer } from './channel-peer.js';
import { HttpPeer } from './http-peer.js';
import type { OpenOptions, Peer } from './peer.js';

export interface McpTarget {
  readonly transport: Transport;
  readonly revision: Revision;
  open(how?: OpenOptions): Promise<Peer>;
}

export interface Detected {
  readonly targets: readonly McpTarget[];
  /** The reply 401 of a server that needs a token. */
  readonly locked?: Reply;
  /** The answers of a server that was not recognised, for the report. */
  readonly refusals: readonly Reply[];
}

/** Makes a wire with a pace of its own, for a request that stays open. */
export type WireFactory = (pace?: Pace) => HttpWire;

const speaks = ({ opening, revision }: Peer): boolean =>
  revision.era === 'modern'
    ? asList(opening.result?.['supportedVersions']).length > 0
    : opening.result?.['protocolVersion'] === revision.date;

export async function detectHttp(wire: WireFactory, wanted: (revision: Revision) => boolean): Promise<Detected> {
  const targets: McpTarget[] = [];
  const refusals: Reply[] = [];
  const http = wire();
  for (const revision of [...MODERN, ...LEGACY].filter((each) => each.streamableHttp && wanted(each))) {
    const open = (how?: OpenOptions): Promise<HttpPeer> => HttpPeer.open(http, revision, how);
    const peer = await open();
    const { opening } = peer;
    if (speaks(peer)) targets.push({ transport: 'http', revision, open });
    else refusals.push(opening);
    if (opening.status === 401) return { targets: [{ transport: 'http', revision, open }], locked: opening, refusals };
    await peer.close();
    // A server that cannot be reached is not asked for the other revisions.
    if (opening.status === undefined) break;
  }
  if (wanted(HTTP_SSE) && refusals.every(({ status }) => status !== undefined)) {
    const openChannel = (): Promise<Channel | Reply> => openSse(wire(), http);
    const first = await openChannel();
    if ('send' in first) {
      await first.close();
      targets.push({
        transport: 'sse',
        revision: HTTP_SSE,
        open: async (how) => {
          const channel = await openChannel();
          if (!('send' in channel)) throw new Error('the event stream could not be opened again');
          return ChannelPeer.open(channel, HTTP_SSE, http.pace, how);
        },
      });
    } else refusals.push(first);
  }
  return { targets, refusals };
}

/** For programs and WebSockets. `openChannel` returns the reply instead if the server refuses the handshake. */
export async function detectChannel(
  openChannel: () => Channel | Promise<Channel | Reply>,
  pace: Pace,
  wanted: (revision: Revision) => boolean,
): Promise<Detected> {
  const targets: McpTarget[] = [];
  const refusals: Reply[] = [];
  for (const revision of [...MODERN, ...LEGACY].filter(wanted)) {
    // A new channel each time: some servers end it after a request that they do not know.
    const channel = await openChannel();
    if (!('send' in channel)) {
      refusals.push(channel);
      // A handshake over WebSocket names no revision, so a refusal counts for all.
      return channel.status === 401 ? { targets, refusals, locked: channel } : { targets, refusals };
    }
    const peer = await ChannelPeer.open(channel, revision, pace);
    const open = async (how?: OpenOptions): Promise<ChannelPeer> => {
      const other = await openChannel();
      if (!('send' in other)) throw new Error('the WebSocket could not be opened again');
      return ChannelPeer.open(other, revision, pace, how);
    };
    if (speaks(peer)) targets.push({ transport: channel.transport, revision, open });
    else refusals.push(peer.opening);
    await peer.close();
  }
  return { targets, refusals };
}
