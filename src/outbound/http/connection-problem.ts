/** Why a connection failed, in words for callers and operators. */

/**
 * The gateway has no file descriptors left. The server did not fail; closed connections free descriptors (fault 10).
 */
export const lacksDescriptors = (error: unknown): boolean => {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === 'EMFILE' || code === 'ENFILE';
};

const PROBLEMS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused; check that it runs, and the host and port of its URL',
  ENOTFOUND: 'its host name does not resolve; check the host of its URL',
  EAI_AGAIN: 'its host name does not resolve; check the host of its URL',
  ETIMEDOUT: 'connecting timed out; check the host and port of its URL, and firewalls on the way',
  EHOSTUNREACH: 'there is no network route to its host; check the host of its URL',
  ENETUNREACH: 'there is no network route to its host; check the host of its URL',
  ECONNRESET: 'the connection was reset',
  REPLY_TIMEOUT: 'it did not answer in time',
  REPLY_TOO_LARGE: 'its reply is too large',
  HTTP_INVALID: 'its reply is not valid HTTP; a server that speaks TLS needs an https:// URL',
  HTTP_UNSENDABLE: 'a header cannot be sent; check "headers" of the server in the configuration',
  ERR_TLS_CERT_ALTNAME_INVALID:
    'its TLS certificate is for another name; check the host of its URL, or set "tls.serverName"',
  CERT_HAS_EXPIRED: 'its TLS certificate has expired; renew it',
  CERT_NOT_YET_VALID: 'its TLS certificate is not valid yet; check the clocks of both machines',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its TLS certificate is self-signed; name that certificate in "tls.ca" to trust it',
  SELF_SIGNED_CERT_IN_CHAIN:
    'its TLS certificate is signed by an unknown authority; name that authority in "tls.ca" to trust it',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    'its TLS certificate is signed by an unknown authority; name that authority in "tls.ca" to trust it',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    'its TLS certificate is signed by an unknown authority; name that authority in "tls.ca" to trust it',
  UNABLE_TO_GET_ISSUER_CERT:
    'its TLS certificate is signed by an unknown authority; name that authority in "tls.ca" to trust it',
  EPROTO: 'it does not speak TLS; a server on plain HTTP needs an http:// URL',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS; a server on plain HTTP needs an http:// URL',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not speak TLS; a server on plain HTTP needs an http:// URL',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'it requires a client certificate; set "tls.cert" and "tls.key"',
  ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE:
    'the TLS handshake failed; it may require a client certificate ("tls.cert", "tls.key")',
};

/** Why a connection failed and what to do about it, without addresses or paths (S25). */
export function connectionProblem(error: Error): string {
  const { code } = error as NodeJS.ErrnoException;
  const known = code === undefined ? undefined : PROBLEMS[code];
  if (known !== undefined) return known;
  return code !== undefined && /CERT|TLS|SSL/.test(code)
    ? `its TLS certificate was not accepted (${code})`
    : (code ?? 'the connection failed');
}
