import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { configFrom } from '../config/load.js';
import { SILENT } from '../telemetry/log.js';
import { Plugins, type PluginsOptions } from './plugin-loader.js';

it.each([
  ['never ends', 'for (;;);'],
  ['waits for what never comes', 'return new Promise(() => {});'],
])('a setup that %s ends the start in time, and names the plugin', async (_, code) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'parley-setup-'));
  const file = path.join(folder, 'stubborn.mjs');
  await writeFile(file, `export default { apiVersion: 1, setup() { ${code} }, onAudit() {} };`);
  const { config } = configFrom({ servers: { s: { url: 'https://s.example/mcp' } }, plugins: [{ use: file }] });
  const options = { config, log: SILENT, setupTime: 500, accountOf: () => '' } as unknown as PluginsOptions;
  await expect(Plugins.load(options)).rejects.toThrow('the setup of plugin "stubborn" takes too long');
  await rm(folder, { recursive: true });
});
