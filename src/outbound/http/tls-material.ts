import { readFileSync, statSync } from 'node:fs';
import { createSecureContext, type SecureContext } from 'node:tls';
import { HttpError } from './client-types.js';

/** TLS settings of one server. `ca`, `cert` and `key` are PEM texts or paths of PEM files. */
export interface TlsSettings {
  /** Trusted certificate authorities, instead of those of the system. */
  readonly ca?: string | undefined;
  /** The client certificate of the gateway. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** The required name in the server's certificate, if it differs from the host of the URL. */
  readonly serverName?: string | undefined;
}

export const isPem = (value: string): boolean => value.includes('-----BEGIN ');

/** Certificates and keys for one server. Changed files are read again for the next connection. */
export class TlsMaterial {
  private stamp = '';
  private context: SecureContext | undefined;

  constructor(private readonly settings: TlsSettings) {}

  /** Throws an `HttpError` for invalid settings. If a changed file is invalid, the last valid settings stay in use. */
  get current(): SecureContext {
    try {
      const stamp = this.look();
      if (!this.context || stamp !== this.stamp) {
        this.context = this.read();
        this.stamp = stamp;
      }
    } catch (error) {
      if (!this.context) throw new HttpError('TLS_SETTINGS', (error as Error).message);
    }
    return this.context;
  }

  private look(): string {
    const { ca, cert, key } = this.settings;
    let stamp = '';
    for (const value of [ca, cert, key]) {
      if (value === undefined || isPem(value)) continue;
      const { mtimeMs, size, ino } = statSync(value);
      stamp += `${mtimeMs} ${size} ${ino} `;
    }
    return stamp;
  }

  private read(): SecureContext {
    const { ca, cert, key } = this.settings;
    const pem = (value: string): string => (isPem(value) ? value : readFileSync(value, 'utf8'));
    return createSecureContext({
      ...(ca !== undefined && { ca: pem(ca) }),
      ...(cert !== undefined && { cert: pem(cert) }),
      ...(key !== undefined && { key: pem(key) }),
    });
  }
}
