/** The URL of the gateway for a caller: the configured one, otherwise the one by which the caller reached it. */
export const baseFor = (publicUrl: string | undefined, reached: string | undefined): string =>
  publicUrl?.replace(/\/+$/, '') ?? (isUrl(reached) ? reached : 'http://localhost');

/** On other addresses than loopback the Host may be anything; only a valid host name is echoed. */
function isUrl(reached: string | undefined): reached is string {
  return (
    reached !== undefined && /^https?:\/\/(\[[\da-f:.]+\]|[\w.-]+)(:\d{1,5})?$/i.test(reached) && URL.canParse(reached)
  );
}
