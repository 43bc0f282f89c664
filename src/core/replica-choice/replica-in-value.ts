/**
 * An opaque value of one replica, such as a task id, a cursor or a `requestState`, contains the id of the replica on
 * its way to the client and back, because no other replica knows the value. The gateway seals the value before a client
 * gets it.
 */
const MARK = '@replica:';

export const bind = (replica: string, value: string): string => `${MARK}${replica}:${value}`;

/** Undefined for a value without the id of a replica, such as a value from the time before the server had replicas. */
export function unbind(value: string): { readonly replica: string; readonly value: string } | undefined {
  if (!value.startsWith(MARK)) return undefined;
  const end = value.indexOf(':', MARK.length);
  return end < 0 ? undefined : { replica: value.slice(MARK.length, end), value: value.slice(end + 1) };
}
