import { principalOf } from '../core/caller.js';
import {
  type Authenticated,
  type AuthenticationRequest,
  type Authenticator,
  Challenge,
  type ClientCertificate,
} from './authenticator.js';

/** The part of a certificate that names its caller. */
export type CertificateSubject = 'commonName' | 'subject' | 'dns' | 'uri' | 'email';

const MISSING = new Challenge('Unauthorized: Invalid or missing API key');
const UNNAMED = new Challenge('Unauthorized: the client certificate does not name a caller');

/**
 * Identifies callers by their client certificates, which the TLS handshake checked against `tls.clientCa`. If the
 * request has a token, the token names the caller instead. An invalid token is refused, even if the certificate of a
 * proxy is valid.
 */
export class CertificateAuthenticator implements Authenticator {
  readonly enabled = true;

  constructor(private readonly part: CertificateSubject) {}

  authenticate(request: AuthenticationRequest): Authenticated {
    const { certificate } = request;
    if (certificate === undefined || request.header('authorization') !== undefined) return MISSING;
    const subject = subjectOf(certificate, this.part);
    if (subject === undefined || subject === '') return UNNAMED;
    const credential = { kind: 'certificate', id: certificate.fingerprint } as const;
    return principalOf({ issuer: 'certificate', subject, credential });
  }
}

const PREFIXES: Readonly<Record<'dns' | 'uri' | 'email', string>> = { dns: 'DNS:', uri: 'URI:', email: 'email:' };

function subjectOf(
  { subject, commonName, names = '' }: ClientCertificate,
  part: CertificateSubject,
): string | undefined {
  if (part === 'commonName') return commonName;
  if (part === 'subject') return subject.replaceAll('\n', ', ');
  const prefix = PREFIXES[part];
  // Node quotes names that contain a separator, so that one name cannot look like two.
  const all = names.match(/(?:[^,"]|"(?:[^"\\]|\\.)*")+/g) ?? [];
  const found = all.map((name) => name.trim()).find((name) => name.startsWith(prefix));
  return found === undefined || found.includes('"') ? undefined : found.slice(prefix.length);
}
