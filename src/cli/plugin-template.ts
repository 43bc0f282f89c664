/** The files that `parley plugin new` writes. They run without a build step and without dependencies. */

export interface PluginTemplate {
  readonly plugin: string;
  readonly test: string;
}

export function pluginTemplate(name: string): PluginTemplate {
  return { plugin: PLUGIN.replaceAll('NAME', name), test: TEST.replaceAll('NAME', name) };
}

const PLUGIN = `// @ts-check
// A plugin for Parley. Configuration:
//
//   plugins:
//     - use: ./NAME.mjs
//       methods: [tools/call]
//       options: { forbidden: rm -rf }
//
// The types come from the package "parley"; an editor checks this file with them. docs/plugins.md explains every hook.

let forbidden = 'rm -rf';

/** @type {import('parley/plugin').Plugin} */
const plugin = {
  apiVersion: 1,

  setup({ options, log }) {
    forbidden = options['forbidden'] ?? forbidden;
    log.info('refuses arguments with a forbidden text');
  },

  // Before the call reaches its server. Return nothing to let it pass, or one of
  // { deny: 'sentence' }, { reply: result }, { params: { arguments } }.
  onRequest(call) {
    if (!JSON.stringify(call.params['arguments'] ?? {}).includes(forbidden)) return undefined;
    return { deny: 'The arguments contain a forbidden text' };
  },

  // After a successful call. The result is parsed only if a plugin reads response.result.
  onResponse(call, response) {
    if (call.method !== 'tools/call' || response.size < 1_000_000) return undefined;
    return { result: { content: [{ type: 'text', text: 'The result is too large; ask for less.' }], isError: true } };
  },

  // Further hooks: onError(call, error), onEvent(call, event), onList(call, items) and onAudit(record).
};

export default plugin;
`;

/** The test imports the plugin beside it. */
const MODULE = `'./NAME.mjs'`;
const TEST = `// Run it with: node --test NAME.test.mjs
// @ts-check
import assert from 'node:assert/strict';
import { test } from 'node:test';
import plugin from ${MODULE};

/**
 * A call of a tool, as the gateway passes it to hooks.
 *
 * @param {import('parley/plugin').JsonObject} args
 * @returns {import('parley/plugin').PluginCall}
 */
const callWith = (args) => ({
  protocol: 'mcp',
  method: 'tools/call',
  requestId: 'test',
  caller: { key: 'ada', issuer: 'parley', subject: 'ada', roles: [], groups: [], scopes: [], tenant: undefined },
  server: 'shell',
  kind: 'tool',
  name: 'run',
  tool: undefined,
  params: { name: 'run', arguments: args },
  began: 0,
  signal: new AbortController().signal,
});

test('lets a harmless call pass', async () => {
  assert.equal(await plugin.onRequest?.(callWith({ command: 'ls' })), undefined);
});

test('refuses a forbidden text', async () => {
  const decision = await plugin.onRequest?.(callWith({ command: 'rm -rf /' }));
  assert.deepEqual(decision, { deny: 'The arguments contain a forbidden text' });
});

test('shortens a large result, and passes a small one', async () => {
  const response = (/** @type {number} */ size) => ({ size, result: { content: [] } });
  assert.equal(await plugin.onResponse?.(callWith({}), response(100)), undefined);
  assert.ok(await plugin.onResponse?.(callWith({}), response(2_000_000)));
});
`;
