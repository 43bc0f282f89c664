import { ProtocolError, UpstreamRpcError } from '../../protocol/errors.js';

/** What a promise comes to within a time; undefined where that takes longer. */
export async function inTime<T>(promise: Promise<T>, milliseconds: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The same; undefined where it fails, too. */
export async function within<T>(promise: Promise<T>, milliseconds: number): Promise<T | undefined> {
  try {
    return await inTime(promise, milliseconds);
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof UpstreamRpcError) return undefined;
    throw error;
  }
}
