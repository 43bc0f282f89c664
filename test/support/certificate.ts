/** Certificates for tests: created on demand, self-signed or signed by a test authority, valid for one hour. */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIPv4 } from 'node:net';

export interface Certificate {
  /** Certificate and key in PEM format. */
  readonly cert: string;
  readonly key: string;
}

function der(tag: number, ...parts: (Buffer | readonly number[])[]): Buffer {
  const content = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

const sequence = (...parts: Buffer[]): Buffer => der(0x30, ...parts);
const oid = (...bytes: number[]): Buffer => der(0x06, bytes);
const octets = (content: Buffer): Buffer => der(0x04, content);
const bits = (content: Buffer): Buffer => der(0x03, [0], content);
const time = (at: number): Buffer =>
  der(0x17, Buffer.from(`${new Date(at).toISOString().slice(2, 19).replace(/[-:T]/g, '')}Z`));

const ECDSA_SHA256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));
const COMMON_NAME = oid(0x55, 0x04, 0x03);
const ALT_NAME = oid(0x55, 0x1d, 0x11);
const BASIC_CONSTRAINTS = oid(0x55, 0x1d, 0x13);
const TRUE = der(0x01, [0xff]);

const altName = (name: string): Buffer =>
  isIPv4(name) ? der(0x87, name.split('.').map(Number)) : der(0x82, Buffer.from(name));

const HOUR = 3_600_000;

const nameOf = (commonName: string): Buffer =>
  sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from(commonName)))));

interface Issuer {
  readonly name: Buffer;
  readonly key: KeyObject;
}

interface Wanted {
  readonly commonName: string;
  readonly names: readonly string[];
  readonly authority: boolean;
  /** Without an issuer, the certificate is self-signed. */
  readonly issuer?: Issuer;
}

function certify({ commonName, names, authority, issuer }: Wanted): Certificate & { readonly issuer: Issuer } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const name = nameOf(commonName);
  const by = issuer ?? { name, key: privateKey };
  const constraints = sequence(BASIC_CONSTRAINTS, TRUE, octets(authority ? sequence(TRUE) : sequence()));
  const altNames = names.length > 0 ? [sequence(ALT_NAME, octets(sequence(...names.map(altName))))] : [];
  const toBeSigned = sequence(
    der(0xa0, der(0x02, [2])),
    der(0x02, [1, ...randomBytes(8)]),
    ECDSA_SHA256,
    by.name,
    sequence(time(Date.now() - HOUR), time(Date.now() + HOUR)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(constraints, ...altNames)),
  );
  const signature = sign('sha256', toBeSigned, by.key);
  const text = sequence(toBeSigned, ECDSA_SHA256, bits(signature)).toString('base64');
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${text.match(/.{1,64}/g)!.join('\n')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    issuer: { name, key: privateKey },
  };
}

const anyName = (): string => `test ${randomBytes(4).toString('hex')}`;

/** `names` are host names and IPv4 addresses. */
export function selfSigned(...names: string[]): Certificate {
  const { cert, key } = certify({ commonName: anyName(), names, authority: true });
  return { cert, key };
}

/** A certificate authority. */
export class Authority {
  private readonly own = certify({ commonName: anyName(), names: [], authority: true });

  /** The certificate of the authority in PEM format. */
  get cert(): string {
    return this.own.cert;
  }

  sign(commonName: string, ...names: string[]): Certificate {
    const { cert, key } = certify({ commonName, names, authority: false, issuer: this.own.issuer });
    return { cert, key };
  }
}
