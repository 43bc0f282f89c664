import { pemText, proxyUrl } from './address-fields.js';
import { duration, group, text } from './field.js';

/** Defaults for reaching a server: a command may have to be downloaded before it starts. */
export const CONNECT = { url: 5_000, command: 60_000 } as const;
export const CONNECT_DESCRIPTION =
  'Time limit for connecting to a `url`, or for a `command` to start and answer, including a download by npx or uvx.';

/** Overrides of `timeouts` for one server or agent. */
export const ownTimeouts = (connect: string) =>
  group('Time limits for this server or agent only; absent limits come from `timeouts`.', {
    connect: duration({ description: connect }),
    call: duration({ description: 'Time limit for a call without any message; progress restarts the time.' }),
    callMax: duration({ description: 'Time limit for a whole call, with or without progress.' }),
  });

/** TLS toward one server or agent. */
export const ownTls = group(
  'TLS toward `url`, if it needs its own authorities or a client certificate; changed files are read again.',
  {
    ca: pemText({ description: 'Trusted authorities (PEM), instead of those of the system.' }),
    cert: pemText({ description: 'The client certificate of the gateway (PEM), with its intermediate certificates.' }),
    key: pemText({ description: 'The private key of `cert` (PEM).' }),
    serverName: text({
      description: 'The name in the certificate of the server, if it is not the host of `url`.',
      pattern: /^[A-Za-z0-9.-]+$/,
      what: 'is not a name',
      fix: 'write a host name, such as mcp.example.com',
    }),
  },
);

export const ownProxy = proxyUrl({
  description:
    'The forward proxy for `url`, or `none`; the default comes from `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` (names, ' +
    'addresses, networks such as `10.0.0.0/8`).',
});

/** A tool's name at its own server. */
