/** Probes of parameters that are mirrored into headers. */
import { asObject, eachObject, isObject, type Json } from '../json.js';
import { expect, skip, type Verdict } from '../requirement.js';
import type { Reply } from '../wire/reply.js';
import type { Probe } from './observed.js';
import { refusedWith } from './probes-base.js';
import { eachItem } from './probes-features.js';
import { SECRET_NAME } from './probes-interaction.js';

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** The mirrored parameters of a tool: those that are reachable by names, and the others. */
function mirrored(tool: Json): { named: Json[]; elsewhere: boolean } {
  const named: Json[] = [];
  const walk = (schema: unknown): void => {
    for (const property of Object.values(asObject(asObject(schema)['properties']))) {
      if (asObject(property)['x-mcp-header'] !== undefined) named.push(asObject(property));
      walk(property);
    }
  };
  walk(tool['inputSchema']);
  let all = 0;
  eachObject(tool['inputSchema'], (object) => {
    if (object['x-mcp-header'] !== undefined && !isObject(object['x-mcp-header'])) all++;
  });
  return { named, elsewhere: all > named.length };
}

type Mirrors = Readonly<Record<string, unknown>>;

const SAMPLES: Readonly<Json> = { string: 'parley', integer: 1, number: 1, boolean: true, array: [], object: {} };

/** Another value of the same type, as a header. */
const otherThan = (value: unknown): string => (typeof value === 'boolean' ? String(!value) : `${String(value)}2`);

/**
 * A probe that calls a tool with mirrored parameters. `headers` makes the values of the Mcp-Param headers from the true
 * ones; undefined if the tool does not suit.
 */
const withMirrors =
  (
    headers: (mirrors: Mirrors) => Readonly<Record<string, string>> | undefined,
    judge: (reply: Reply) => Verdict,
  ): Probe =>
  async (surface) => {
    const tool = await surface.mirroredTool();
    if (tool === undefined) return skip('no tool that may be called has a mirrored parameter');
    const given: Json = {};
    const mirrors: Json = {};
    for (const [key, schema] of Object.entries(asObject(asObject(tool['inputSchema'])['properties']))) {
      given[key] = SAMPLES[String(asObject(schema)['type'])] ?? 'parley';
      const name = asObject(schema)['x-mcp-header'];
      if (typeof name === 'string' && TOKEN.test(name)) mirrors[name] = given[key];
    }
    const chosen = headers(mirrors);
    if (chosen === undefined) return skip('the mirrored parameters have other types');
    const params = Object.fromEntries(Object.entries(chosen).map(([name, value]) => [`Mcp-Param-${name}`, value]));
    return judge(await surface.peer.call('tools/call', { name: tool['name'], arguments: given }, { headers: params }));
  };

export const MIRROR_PROBES: Readonly<Record<string, Probe>> = {
  mirrorNames: eachItem('tools', (tool) => {
    const names = mirrored(tool).named.map((each) => each['x-mcp-header']);
    const wrong = names.find((name) => typeof name !== 'string' || !TOKEN.test(name));
    if (wrong !== undefined) return `x-mcp-header is ${JSON.stringify(wrong)}`;
    return new Set(names.map((name) => String(name).toLowerCase())).size === names.length
      ? undefined
      : 'a header is used twice';
  }),
  mirrorTypes: eachItem('tools', (tool) => {
    const wrong = mirrored(tool).named.find(({ type }) => !['string', 'integer', 'boolean'].includes(String(type)));
    return wrong === undefined ? undefined : `x-mcp-header on the type ${JSON.stringify(wrong['type'])}`;
  }),
  mirrorPlaces: eachItem('tools', (tool) =>
    mirrored(tool).elsewhere ? 'x-mcp-header on a part that is not reachable by names' : undefined,
  ),
  mirrorSecrets: eachItem('tools', (tool) => {
    const properties = Object.entries(asObject(asObject(tool['inputSchema'])['properties']));
    const wrong = properties.find(
      ([name, schema]) => SECRET_NAME.test(name) && asObject(schema)['x-mcp-header'] !== undefined,
    );
    return wrong === undefined ? undefined : `${wrong[0]} is mirrored into a header`;
  }),
  mirrorRequired: withMirrors(
    () => ({}),
    (reply) => refusedWith(reply, -32020, 400),
  ),
  mirrorMismatch: withMirrors(
    (mirrors) => Object.fromEntries(Object.entries(mirrors).map(([name, value]) => [name, otherThan(value)])),
    (reply) => refusedWith(reply, -32020, 400),
  ),
  mirrorInteger: withMirrors(
    (mirrors) =>
      Object.values(mirrors).includes(1)
        ? Object.fromEntries(Object.entries(mirrors).map(([name, each]) => [name, each === 1 ? '1.0' : String(each)]))
        : undefined,
    (reply) => expect(reply.code !== -32020, 'the header 1.0 does not match the integer 1', reply),
  ),
};
