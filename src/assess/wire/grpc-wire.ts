import { Client, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { dial, grpcTarget } from '../../outbound/a2a/grpc-target.js';
import type { Guard } from '../../outbound/http/index.js';
import { decodeDetails, STATUS_DETAILS } from '../../protocol/a2a/proto/error-details.js';
import type { Json } from '../json.js';

/** The largest message that is read, in bytes. */
const MAX_MESSAGE = 4 * 1024 * 1024;
const MAX_MESSAGES = 1_000;

export interface GrpcCall {
  readonly path: string;
  readonly streams: boolean;
  readonly bytes: Buffer;
  readonly metadata: readonly (readonly [string, string])[];
  /** Time for the whole reply, in milliseconds. */
  readonly limit: number;
  /** Whether the first message of a stream is enough. */
  readonly firstOnly?: boolean | undefined;
}

export interface GrpcReceived {
  /** The name of the status, such as NOT_FOUND. */
  readonly status: string;
  readonly message: string;
  /** The details of the error that could be read. */
  readonly details: readonly Json[];
  readonly messages: readonly Buffer[];
  /** Whether the server ended the call, and not a limit of ours. */
  readonly ended: boolean;
}

/** Calls methods of one gRPC server by their path, with messages as bytes. */
export interface GrpcClient {
  call(call: GrpcCall): Promise<GrpcReceived>;
  close(): void;
}

export type GrpcDialer = (address: string) => GrpcClient;

const asIs = (bytes: Buffer): Buffer => bytes;

/** Dials real servers. With `egress`, only addresses that it allows. */
export const grpcDialer =
  ({ egress, proxy }: Partial<Guard> = {}): GrpcDialer =>
  (address) => {
    const client = dial(grpcTarget(address), egress, { proxy }).then(
      (dialed) =>
        new Client(dialed.address, dialed.credentials, {
          ...dialed.options,
          'grpc.use_local_subchannel_pool': 1,
          'grpc.max_receive_message_length': MAX_MESSAGE,
          'grpc.enable_http_proxy': 0,
          'grpc.enable_retries': 0,
        }),
    );
    // The first call reports the failure.
    client.catch(() => {});
    return {
      call: async (call) => {
        try {
          return await exchange(await client, call);
        } catch (error) {
          return { status: 'UNAVAILABLE', message: (error as Error).message, details: [], messages: [], ended: false };
        }
      },
      close: () => void client.then((each) => each.close()).catch(() => {}),
    };
  };

function exchange(
  client: Client,
  { path, streams, bytes, metadata, limit, firstOnly }: GrpcCall,
): Promise<GrpcReceived> {
  const given = new Metadata();
  for (const [name, value] of metadata) given.set(name.toLowerCase(), value);
  const options = { deadline: Date.now() + limit };
  const messages: Buffer[] = [];
  const done = (error: Partial<ServiceError> | null, ended: boolean): GrpcReceived => {
    const [packed] = error?.metadata?.get(STATUS_DETAILS) ?? [];
    return {
      status: error ? (status[error.code ?? status.UNKNOWN] ?? 'UNKNOWN') : 'OK',
      message: error?.details ?? '',
      details: packed instanceof Buffer ? decodeDetails(packed) : [],
      messages,
      ended: ended && error?.code !== status.DEADLINE_EXCEEDED,
    };
  };
  return new Promise((resolve) => {
    if (!streams) {
      client.makeUnaryRequest(path, asIs, asIs, bytes, given, options, (error, reply) => {
        if (reply) messages.push(reply);
        resolve(done(error, true));
      });
      return;
    }
    const call = client.makeServerStreamRequest(path, asIs, asIs, bytes, given, options);
    call.on('data', (message: Buffer) => {
      messages.push(message);
      if (firstOnly || messages.length >= MAX_MESSAGES) {
        resolve(done(null, false));
        call.cancel();
      }
    });
    call.on('end', () => resolve(done(null, true)));
    call.on('error', (error: ServiceError) => resolve(done(error, true)));
  });
}
