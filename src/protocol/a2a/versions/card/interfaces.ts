import { isObject, type JsonObject, type JsonValue } from '../../../jsonrpc/raw.js';
import type { OfferedInterface, Version } from '../../dialect.js';
import type { AgentInterface, Binding } from '../../model.js';
import { cardDialect, readVersion } from '../../version-detection.js';
import { camel } from '../tolerant-readers.js';

const BINDINGS = new Map<string, Binding>([
  ['JSONRPC', 'JSONRPC'],
  ['HTTPJSON', 'HTTP+JSON'],
  ['REST', 'HTTP+JSON'],
  ['HTTP', 'HTTP+JSON'],
  ['GRPC', 'GRPC'],
]);

/** The most interfaces of a card that are read. A hostile card could list so many that a comparison of all takes seconds. */
const MOST_INTERFACES = 100;

/** The binding for a name in any spelling; undefined for a URI, which names a custom binding. */
export function bindingOf(name: JsonValue | undefined): Binding | undefined {
  if (name === undefined || name === '') return 'JSONRPC';
  return typeof name === 'string' ? BINDINGS.get(name.toUpperCase().replace(/[^A-Z]/g, '')) : undefined;
}

/** The interfaces that a card of any version lists, in the agent's order of preference. */
export function listedInterfaces(wire: JsonObject): AgentInterface[] {
  const card = camel(wire);
  const listed: AgentInterface[] = [];
  const { supportedInterfaces } = card;
  if (Array.isArray(supportedInterfaces)) {
    for (const item of supportedInterfaces) {
      if (listed.length === MOST_INTERFACES) break;
      if (!isObject(item)) continue;
      const { url, protocolBinding, transport, protocolVersion, ...rest } = camel(item);
      if (typeof url !== 'string' || url === '') continue;
      const binding = protocolBinding ?? transport;
      listed.push({
        ...rest,
        url,
        protocolBinding: typeof binding === 'string' && binding !== '' ? binding : 'JSONRPC',
        protocolVersion: typeof protocolVersion === 'string' && protocolVersion !== '' ? protocolVersion : '1.0',
      });
    }
  }
  for (const old of oldInterfaces(card)) {
    const same = listed.some(
      (each) =>
        each.url === old.url &&
        bindingOf(each.protocolBinding) === bindingOf(old.protocolBinding) &&
        readVersion(each.protocolVersion) === readVersion(old.protocolVersion),
    );
    if (!same && listed.length < MOST_INTERFACES) listed.push(old);
  }
  return listed;
}

/** `url` with `preferredTransport`, then `additionalInterfaces`. */
function oldInterfaces(card: JsonObject): AgentInterface[] {
  const protocolVersion = oldVersion(card);
  const made: AgentInterface[] = [];
  const add = (url: JsonValue | undefined, transport: JsonValue | undefined): void => {
    if (typeof url !== 'string' || url === '' || made.length === MOST_INTERFACES) return;
    const protocolBinding = typeof transport === 'string' && transport !== '' ? transport : 'JSONRPC';
    if (made.some((each) => each.url === url && each.protocolBinding === protocolBinding)) return;
    made.push({ url, protocolBinding, protocolVersion });
  };
  add(card['url'], card['preferredTransport']);
  const more = card['additionalInterfaces'];
  for (const item of Array.isArray(more) ? more : []) {
    if (isObject(item)) add(item['url'], item['transport'] ?? item['protocolBinding']);
  }
  return made;
}

/** The version of the 0.x half of a card; the 1.0 half does not apply to it. */
function oldVersion(card: JsonObject): Version {
  const { supportedInterfaces: _modern, ...old } = card;
  const version = cardDialect(old);
  return version === '0.3-proto' ? '0.3' : version;
}

/** The interfaces of a card that the gateway supports (C-2, C-3, C-16). */
export function interfacesOf(card: JsonObject): OfferedInterface[] {
  return listedInterfaces(card).flatMap(({ url, protocolBinding, protocolVersion, tenant }) => {
    const binding = bindingOf(protocolBinding);
    const version = readVersion(protocolVersion);
    if (binding === undefined || version === undefined || version === 'unsupported') return [];
    return [{ url, binding, version, tenant: typeof tenant === 'string' && tenant !== '' ? tenant : undefined }];
  });
}
