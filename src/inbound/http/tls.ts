import { createHash, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import type { Log } from '../../telemetry/log.js';

/** The files of `tls` in the configuration. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  /** The authorities that sign client certificates. If absent, clients send no certificate. */
  readonly clientCa?: string | undefined;
  /** Whether a client without a certificate is refused. */
  readonly clientCertificate: 'required' | 'optional';
}

/** The contents of the files. */
export interface TlsContext {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca?: Buffer;
}

/** The files do not allow TLS to be set up. */
export class TlsFileError extends Error {
  override readonly name = 'TlsFileError';
}

/** The interval for reading the files again. Reading detects replaced symbolic links, which a file watcher misses. */
const INTERVAL = 5_000;

/** The certificate and its key, which may be replaced while the gateway runs. */
export class Certificates {
  private timer: NodeJS.Timeout | undefined;
  private stopped = false;
  /** The digest of the last contents read, valid or not. */
  private seen: string;
  /** The last problem with the files, so that it is logged once. */
  private problem: string | undefined;

  private constructor(
    private readonly files: TlsFiles,
    readonly context: TlsContext,
    private readonly log: Log,
  ) {
    this.seen = digest(context);
  }

  /** Throws if the files are invalid. */
  static async load(files: TlsFiles, log: Log): Promise<Certificates> {
    const context = await read(files);
    describe(check(files, context), log, 'loaded the TLS certificate');
    return new Certificates(files, context, log);
  }

  /** Calls `apply` with each new content of the files. If the new content is invalid, the old content stays in use. */
  watch(apply: (context: TlsContext) => void, interval = INTERVAL): void {
    this.stopped = false;
    const look = (): void => {
      if (this.stopped) return;
      this.timer = setTimeout(() => void this.reload(apply).finally(look), interval).unref();
    };
    look();
  }

  /** Checks the files now. */
  async reload(apply: (context: TlsContext) => void): Promise<void> {
    try {
      const context = await read(this.files);
      const now = digest(context);
      if (now === this.seen) return;
      this.seen = now;
      const leaf = check(this.files, context);
      apply(context);
      this.problem = undefined;
      describe(leaf, this.log, 'loaded the new TLS certificate');
    } catch (error) {
      const { message } = error as Error;
      if (message === this.problem) return;
      this.problem = message;
      this.log.warn({ reason: message }, 'the changed TLS files cannot be used; keeping the current certificate');
    }
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
  }
}

async function read({ cert, key, clientCa }: TlsFiles): Promise<TlsContext> {
  const content = async (setting: string, file: string): Promise<Buffer> => {
    try {
      return await readFile(file);
    } catch (error) {
      throw new TlsFileError(
        `tls.${setting}: ${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})`,
      );
    }
  };
  return {
    cert: await content('cert', cert),
    key: await content('key', key),
    ...(clientCa !== undefined && { ca: await content('clientCa', clientCa) }),
  };
}

function digest({ cert, key, ca }: TlsContext): string {
  const hash = createHash('sha256');
  for (const part of [cert, key, ca ?? Buffer.alloc(0)]) hash.update(`${part.length}:`).update(part);
  return hash.digest('hex');
}

/** Returns the gateway's own certificate. Throws if the three files do not match. */
function check(files: TlsFiles, context: TlsContext): X509Certificate {
  let leaf: X509Certificate;
  try {
    leaf = new X509Certificate(context.cert);
  } catch {
    throw new TlsFileError(`tls.cert: ${files.cert} contains no certificate in PEM form`);
  }
  if (context.ca) {
    try {
      new X509Certificate(context.ca);
    } catch {
      throw new TlsFileError(`tls.clientCa: ${files.clientCa} contains no certificate in PEM form`);
    }
  }
  try {
    createSecureContext(secureOptions(context));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_OSSL_X509_KEY_VALUES_MISMATCH')
      throw new TlsFileError(`tls.key: ${files.key} is not the key of the certificate in ${files.cert}`);
    throw new TlsFileError(`tls.key: ${files.key} cannot be used (${message})`);
  }
  return leaf;
}

function describe(leaf: X509Certificate, log: Log, message: string): void {
  const fields = { subject: oneLine(leaf.subject), names: leaf.subjectAltName, expires: leaf.validTo };
  log.info(fields, message);
  const now = Date.now();
  if (Date.parse(leaf.validTo) < now) log.warn(fields, 'the TLS certificate has expired; clients will refuse it');
  else if (Date.parse(leaf.validFrom) > now) log.warn(fields, 'the TLS certificate is not valid yet');
}

const oneLine = (subject: string): string => subject.replaceAll('\n', ', ');

/** The options of a TLS context, at the start and after each change of the files. */
export function secureOptions({ cert, key, ca }: TlsContext): SecureContextOptions {
  return { cert, key, ...(ca && { ca }), minVersion: 'TLSv1.2' };
}
