/** The keys of `egress`: rules for URLs that the operator did not write. */
import { hostOrNetwork, proxyUrl } from './address-fields.js';
import { flag, group, integer, list } from './field.js';

const place = hostOrNetwork({ description: 'One host or network.' });

export const egress = group(
  'Rules for URLs that callers, servers and agents supply: webhooks, keys, interfaces of agents, OAuth metadata.',
  {
    allowPrivate: flag({
      default: false,
      description: 'Whether these URLs may lead to this machine and to private networks.',
    }),
    allow: list(place, {
      description:
        'Hosts and networks that these URLs may lead to although they are private, such as `login.corp.example`, ' +
        '`*.corp.example` or `10.20.0.0/16`; addresses of metadata services stay refused.',
    }),
    deny: list(place, {
      description: 'Hosts and networks that these URLs never lead to; wins over `allow` and `allowPrivate`.',
    }),
    ports: list(integer({ min: 1, max: 65_535, description: 'One port.' }), {
      description: 'Allowed ports in addition to 80 and 443.',
    }),
    proxy: proxyUrl({
      description:
        'The forward proxy for these URLs; the gateway opens tunnels to IP addresses that it has checked, never to ' +
        'names, and ignores the proxies of the environment.',
    }),
  },
);
