import { readFileSync, statSync } from 'node:fs';
import { createSecureContext, type SecureContext } from 'node:tls';
import { HttpError } from './exchange.js';

/** How TLS is spoken to one server. `ca`, `cert` and `key` are PEM texts, or files that hold one. */
export interface TlsSettings {
  /** The authorities that are trusted, instead of the system's. */
  readonly ca?: string | undefined;
  /** What the gateway identifies itself with. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** The name the server's certificate has to carry, where it is not the host of the URL. */
  readonly serverName?: string | undefined;
}

export const isPem = (value: string): boolean => value.includes('-----BEGIN ');

/** Certificates and keys of one server; files that change are read again for the next connection. */
export class TlsMaterial {
  private stamp = '';
  private context: SecureContext | undefined;

  constructor(private readonly settings: TlsSettings) {}

  /** Throws an `HttpError` where there is nothing that can be used. A change that cannot be used is left alone. */
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
