import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';
import { within } from '../timing.js';

/** The answer of a server within a time; undefined where it takes longer, or fails. */
export async function answeredWithin<T>(answer: Promise<T>, milliseconds: number): Promise<T | undefined> {
  try {
    return await within(answer, milliseconds);
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return undefined;
    throw error;
  }
}
