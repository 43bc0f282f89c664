import { type ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { type Id, writeError, writeNotification, writeResult } from '../../protocol/jsonrpc/message.js';
import type { RawObject } from '../../protocol/jsonrpc/raw.js';
import { type Implementation, META, type Notification } from '../../protocol/mcp/model.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import { encodeFailure } from '../../protocol/mcp/translate/failures.js';
import { encodeResult, resultOf } from '../../protocol/mcp/translate/result.js';

/** Sends the messages of one request, over any transport. */
export interface ReplyChannel {
  /** The id of the request in logs and errors. */
  readonly requestId?: string;
  /** The network address of the client, for the audit trail. */
  readonly address?: string | undefined;
  /** Sends a message that belongs to the request and comes before its response. */
  send(message: Buffer): void;
  /** Sends the response. `status` and `headers` apply if the HTTP response has not begun. */
  finish(message: readonly Buffer[], status: number, headers: readonly string[]): void;
  /** Releases the client's connection until the client asks again, if the transport allows this. */
  poll?(retry: number): void;
}

export const NO_HEADERS: readonly string[] = [];

/** Writes the core's messages in the caller's revision. */
export class Encoder {
  constructor(
    private readonly revision: Revision,
    private readonly gateway: Implementation,
  ) {}

  result(channel: ReplyChannel, id: Id, method: string, result: RawObject): void {
    channel.finish(writeResult(id, encodeResult(method, result, this.revision, this.gateway)), 200, NO_HEADERS);
  }

  failure(
    channel: ReplyChannel,
    id: Id,
    method: string,
    error: ProtocolError | UpstreamRpcError,
    params?: RawObject,
  ): void {
    const encoded = encodeFailure(error, this.revision, {
      method,
      uri: method === 'resources/read' ? params?.get('uri') : undefined,
    });
    if ('result' in encoded) this.result(channel, id, method, resultOf(encoded.result));
    else channel.finish([writeError(id, encoded.error)], encoded.status, Object.entries(encoded.headers).flat());
  }

  /** A notification of a request, with the progress token of its sender. */
  notification({ method, params }: Notification, progressToken: string | number | undefined): Buffer {
    if (method !== 'notifications/progress') return writeNotification(method, params);
    const { message, ...rest } = params;
    return writeNotification(method, {
      ...rest,
      ...(message !== undefined && this.revision.expresses.progressMessage && { message }),
      [META.progressToken]: progressToken,
    });
  }
}

/**
 * Receives the errors that clients get, for the metrics. An error of a call may come twice: the metrics count it once.
 */
export type Refused = (error: ProtocolError) => void;

export const isKnownError = (error: unknown): error is ProtocolError | UpstreamRpcError =>
  error instanceof UpstreamRpcError || (error instanceof Error && error.name === 'ProtocolError');
