import { BlockList, isIP } from 'node:net';
import path from 'node:path';
import { hideCredentials, MASK } from '../identity/mask-secrets.js';
import { type FieldOptions, type Present, Refusal, type Scalar, scalarField } from './field.js';

/** An address to listen on. `host` is a name or an address without brackets. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

const LISTEN_FIX = 'write HOST:PORT, such as 127.0.0.1:4600, [::1]:4600 or 0.0.0.0:4600 (every interface)';

export function listenAddress<const O extends FieldOptions>(options: O): Scalar<Present<ListenAddress, O>> {
  return scalarField<ListenAddress, O>(
    {
      type: 'host:port',
      schema: { type: ['string', 'integer'] },
      read(value) {
        const match = /^(?:(\[[^\]]+\]|[^:[\]]+):)?(\d{1,5})$/.exec(String(value).trim());
        const port = Number(match?.[2]);
        if (match === null || port > 65_535) return new Refusal('is not an address to listen on', LISTEN_FIX);
        const written = match[1] ?? '127.0.0.1';
        const bracketed = written.startsWith('[');
        const host = bracketed ? written.slice(1, -1) : written;
        if (bracketed ? isIP(host) !== 6 : isIP(host) !== 4 && !isHostName(host)) {
          return new Refusal('is not an address to listen on', LISTEN_FIX);
        }
        return { host, port };
      },
      show: formatListen,
    },
    options,
  );
}

export function formatListen({ host, port }: ListenAddress): string {
  return isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`;
}

/** The last label must not be a number: `1.2.3` and `300.1.1.1` are mistyped addresses, not names. */
function isHostName(host: string): boolean {
  return /^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*[a-z0-9-]*[a-z][a-z0-9-]*$/i.test(host) && host.length <= 253;
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** True if only this machine can reach the address. */
export function isLoopback(host: string): boolean {
  const family = isIP(host);
  if (family === 0) return host.toLowerCase() === 'localhost';
  return loopback.check(host, family === 6 ? 'ipv6' : 'ipv4');
}

/** An http or https URL. Credentials and secret-looking query values are hidden when it is shown. */
export function httpUrl<const O extends FieldOptions>(options: O): Scalar<Present<string, O>> {
  return urlField(
    ['http:', 'https:'],
    'URL',
    'write an http:// or https:// URL, such as https://example.com/mcp',
    options,
  );
}

/** The URL of a forward proxy, or `none`. */
export function proxyUrl<const O extends FieldOptions>(options: O): Scalar<Present<string, O>> {
  const fix = 'write an http:// or https:// URL, such as http://proxy.example.com:3128, or none';
  return scalarField<string, O>(
    {
      type: 'URL',
      read(value) {
        const written = String(value).trim();
        if (written === 'none') return written;
        const url = parseUrl(written);
        if (url === null) return new Refusal('is not a URL', fix);
        if (url.protocol !== 'http:' && url.protocol !== 'https:')
          return new Refusal(`has the scheme ${url.protocol}`, fix);
        if (!isEncoded(url.username + url.password))
          return new Refusal('has a user name or password that is not percent-encoded', 'write %25 for a percent sign');
        return written;
      },
      show: hideCredentials,
    },
    options,
  );
}

/** Whether each percent sign begins an encoded byte of a UTF-8 text. */
function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

export function urlField<const O extends FieldOptions>(
  protocols: readonly string[],
  type: string,
  fix: string,
  options: O,
): Scalar<Present<string, O>> {
  return scalarField<string, O>(
    {
      type,
      read(value) {
        const url = parseUrl(String(value));
        if (url === null) return new Refusal('is not a URL', fix);
        if (!protocols.includes(url.protocol)) return new Refusal(`has the scheme ${url.protocol}`, fix);
        return String(value).trim();
      },
      show: hideCredentials,
    },
    options,
  );
}

function parseUrl(value: string): URL | null {
  return URL.canParse(value) ? new URL(value) : null;
}

/**
 * A path, made absolute. A relative path starts at the folder of the file that contains the path, or at the working
 * directory.
 */
export function filePath<const O extends FieldOptions>(options: O): Scalar<Present<string, O>> {
  return scalarField<string, O>(
    {
      type: 'path',
      read(value, context) {
        const written = String(value);
        if (written.trim() === '') return new Refusal('is empty', 'write a path');
        if (written.includes('\0')) return new Refusal('has a NUL character', 'write a path');
        return path.resolve(context.directory, written);
      },
    },
    options,
  );
}

/** PEM text, or the path of a PEM file, which is made absolute. */
export function pemText<const O extends FieldOptions>(options: O): Scalar<Present<string, O>> {
  return scalarField<string, O>(
    {
      type: 'path or PEM',
      read(value, context) {
        const written = String(value);
        if (isPem(written)) return written;
        if (/[\0\r\n]/.test(written.trim()) || written.trim() === '')
          return new Refusal('is neither PEM nor a path', PEM_FIX);
        return path.resolve(context.directory, written.trim());
      },
      show: (value) => (isPem(value) ? MASK : value),
    },
    options,
  );
}

export const isPem = (value: string): boolean => value.includes('-----BEGIN ');
export const PEM_FIX = 'write the path of a PEM file, or the text itself from -----BEGIN to -----END';

/** `scheme://host[:port]`, as a browser sends it in the Origin header; never a path. */
export function webOrigin<const O extends FieldOptions & { any: boolean }>(options: O): Scalar<Present<string, O>> {
  const fix = 'write scheme://host[:port] without a path, such as https://app.example.com';
  return scalarField<string, O>(
    {
      type: 'origin',
      read(value) {
        const written = String(value).trim();
        if (written === 'null' || (written === '*' && options.any)) return written;
        const url = parseUrl(written);
        if (url === null || url.host === '') return new Refusal('is not an origin', fix);
        if (!/^[a-z][a-z0-9+.-]*:\/\/[^/?#@]+\/?$/i.test(written))
          return new Refusal('has more parts than an origin', fix);
        return `${url.protocol}//${url.host}`;
      },
    },
    options,
  );
}

/** A Host header value: a name or address, with or without a port. */
export function hostName<const O extends FieldOptions>(options: O): Scalar<Present<string, O>> {
  return scalarField<string, O>(
    {
      type: 'host',
      read(value) {
        const written = String(value).trim().toLowerCase();
        const match = /^(\[[0-9a-f:.]+\]|[^:[\]/]+)(?::(\d{1,5}))?$/.exec(written);
        const host = match?.[1] ?? '';
        const known = host.startsWith('[') ? isIP(host.slice(1, -1)) === 6 : isIP(host) === 4 || isHostName(host);
        if (!known || Number(match?.[2] ?? 0) > 65_535) {
          return new Refusal('is not a host', 'write a host name with or without a port, such as gateway.example.com');
        }
        return written;
      },
    },
    options,
  );
}

function isRange(written: string): boolean {
  const [address = '', bits, more] = written.split('/');
  const family = isIP(address);
  const most = family === 6 ? 128 : 32;
  if (family === 0 || more !== undefined || address.includes('%')) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most);
}

/** A host name, `*.` and a domain, an address, or a network such as `10.0.0.0/8`. */
export function hostOrNetwork<const O extends FieldOptions>(options: O): Scalar<Present<string, O>> {
  return scalarField<string, O>(
    {
      type: 'network',
      read(value) {
        const written = String(value).trim().toLowerCase();
        if (isRange(written) || isHostName(written.replace(/^\*\./, ''))) return written;
        return new Refusal(
          'is neither a host nor a network',
          'write a host without a port, *. and a domain, or a network, such as hooks.example.com or 10.0.0.0/8',
        );
      },
    },
    options,
  );
}

/** An address, or a network such as `10.0.0.0/8`. */
export function addressRange<const O extends FieldOptions>(options: O): Scalar<Present<string, O>> {
  return scalarField<string, O>(
    {
      type: 'address range',
      read(value) {
        const written = String(value).trim();
        if (!isRange(written))
          return new Refusal(
            'is neither an address nor a network',
            'write an address or a network, such as 10.0.0.0/8',
          );
        return written;
      },
    },
    options,
  );
}
