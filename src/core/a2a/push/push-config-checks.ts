import type { TaskPushNotificationConfig } from '../../../protocol/a2a/model.js';
import { ProtocolError } from '../../../protocol/errors.js';

const LONGEST = { url: 2_048, id: 256, token: 4_096, scheme: 64, credentials: 8_192 } as const;
/** The most characters of a whole configuration, including unknown members. */
const LARGEST = 16_384;

/** Characters allowed in a header value: a line break would let the client add headers. */
const PRINTABLE = /^[\x20-\x7e]*$/;
/** The syntax of an authentication scheme (`token` in RFC 9110). */
const SCHEME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

function refuse(message: string): never {
  throw new ProtocolError('invalid_params', message, { outcome: 'not_executed' });
}

function text(name: keyof typeof LONGEST, value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') refuse(`The ${name} of a push configuration must be a string`);
  if (value.length > LONGEST[name])
    refuse(`The ${name} of a push configuration may have at most ${LONGEST[name]} characters`);
  if (!PRINTABLE.test(value))
    refuse(`The ${name} of a push configuration must not have line breaks or characters that headers cannot carry`);
  return value;
}

/**
 * Refuses a configuration that names a URL to which the gateway cannot or must not deliver. `checkUrl` checks the URL
 * alone, without DNS; the resolved addresses are checked when the gateway connects (S-53).
 */
export function checkPushConfig(config: TaskPushNotificationConfig, checkUrl: (url: string) => unknown): void {
  const url = text('url', config.url);
  if (url === undefined || url === '') refuse('A push configuration needs a url');
  text('id', config.id);
  text('token', config.token);
  const { authentication } = config;
  if (authentication !== undefined && authentication !== null) {
    const scheme = text('scheme', authentication.scheme);
    const credentials = text('credentials', authentication.credentials);
    if (scheme !== undefined && scheme !== '' && !SCHEME.test(scheme))
      refuse('The authentication scheme of a push configuration must be a single word');
    if (credentials && !scheme) refuse('The credentials of a push configuration need a scheme');
  }
  if (JSON.stringify(config).length > LARGEST) refuse(`A push configuration may have at most ${LARGEST} characters`);
  try {
    checkUrl(url);
  } catch (error) {
    if (error instanceof ProtocolError) throw error;
    refuse(`The url of a push configuration ${error instanceof Error ? error.message : 'is not allowed'}`);
  }
}
