import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { within } from '../timing.js';

/** The answer of a server if it arrives within the given milliseconds; undefined if it is late or fails. */
export async function answeredWithin<T>(answer: Promise<T>, milliseconds: number): Promise<T | undefined> {
  try {
    return await within(answer, milliseconds);
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return undefined;
    throw error;
  }
}
