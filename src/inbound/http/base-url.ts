/**
 * The URL of the gateway for a caller: the configured URL, otherwise the URL by which the caller reached the gateway.
 */
export const baseFor = (publicUrl: string | undefined, reached: string | undefined): string =>
  publicUrl?.replace(/\/+$/, '') ?? (isUrl(reached) ? reached : 'http://localhost');

/**
 * If the gateway listens on another address than loopback, the client may send any Host. Only a valid host name is used
 * in the URL.
 */
function isUrl(reached: string | undefined): reached is string {
  return (
    reached !== undefined && /^https?:\/\/(\[[\da-f:.]+\]|[\w.-]+)(:\d{1,5})?$/i.test(reached) && URL.canParse(reached)
  );
}
