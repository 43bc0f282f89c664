/**
 * Opaque values of one replica, such as a task id, a cursor or a `requestState`, carry the id of the replica on their
 * way to the client and back. No other replica knows them. The gateway seals them before a client gets them.
 */
const MARK = '@replica:';

export const bind = (replica: string, value: string): string => `${MARK}${replica}:${value}`;

/** Undefined for a value that was not bound, such as one from the time before the server had replicas. */
export function unbind(value: string): { readonly replica: string; readonly value: string } | undefined {
  if (!value.startsWith(MARK)) return undefined;
  const end = value.indexOf(':', MARK.length);
  return end < 0 ? undefined : { replica: value.slice(MARK.length, end), value: value.slice(end + 1) };
}
