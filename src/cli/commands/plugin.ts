import { existsSync } from 'node:fs';
import path from 'node:path';
import { type Command, HELP, JSON_OUTPUT, UsageError } from '../command.js';
import { pluginTemplate } from '../plugin-template.js';
import { writeAtomically } from '../write-file.js';

export const PLUGIN_NEW: Command = {
  name: 'plugin new',
  operands: ['NAME'],
  summary: 'Write a plugin to start from, with a test.',
  details:
    'Writes NAME.mjs and NAME.test.mjs into this folder: a plugin with types for editors, and a test that runs with\n' +
    'node --test. Existing files are not changed.',
  flags: [JSON_OUTPUT, HELP],
  examples: ['parley plugin new guard', 'parley plugin new guard --json'],
  run: ({ io, operands: [name = ''], given }) => {
    if (!/^[A-Za-z0-9][\w.-]{0,63}$/.test(name))
      throw new UsageError(
        `${JSON.stringify(name)} is not a name for a plugin; write letters, digits, dots and dashes`,
      );
    const files = [`${name}.mjs`, `${name}.test.mjs`];
    const existing = files.find((file) => existsSync(path.resolve(io.cwd, file)));
    if (existing !== undefined) throw new UsageError(`${existing} exists already; choose another name`);
    const { plugin, test } = pluginTemplate(name);
    writeAtomically(path.resolve(io.cwd, files[0]!), plugin);
    writeAtomically(path.resolve(io.cwd, files[1]!), test);
    if (given('json')) io.stdout(`${JSON.stringify({ files })}\n`);
    else
      io.stdout(
        `Wrote ${files.join(' and ')}.\nTest it:  node --test ${files[1]}\nCheck it: parley plugin check ${files[0]}\n` +
          `Use it:   add "plugins: [{ use: ./${files[0]} }]" to parley.yaml\n`,
      );
    return 0;
  },
};

export const PLUGIN_CHECK: Command = {
  name: 'plugin check',
  operands: ['FILE'],
  summary: 'Load a plugin and say which hooks it has.',
  details:
    'Imports FILE, a JavaScript module or the name of a package, as the gateway does, checks that its default export is\n' +
    'a plugin, and prints its hooks. The code of the module runs; its hooks and its setup do not. The exit code is 0 for\n' +
    'a valid plugin and 1 otherwise.',
  flags: [JSON_OUTPUT, HELP],
  examples: ['parley plugin check guard.mjs', 'parley plugin check guard.mjs --json'],
  run: async ({ io, operands: [file = ''], given }) => {
    const { checkPlugin, PluginLoadError } = await import('../../app/commands/plugin-check.js');
    try {
      const facts = await checkPlugin(file, io.cwd);
      if (given('json')) io.stdout(`${JSON.stringify({ ok: true, ...facts })}\n`);
      else io.stdout(`${file}: a valid plugin, API version ${facts.apiVersion}\nhooks: ${facts.hooks.join(', ')}\n`);
      return 0;
    } catch (error) {
      if (!(error instanceof PluginLoadError)) throw error;
      if (given('json')) io.stdout(`${JSON.stringify({ ok: false, error: error.message })}\n`);
      else io.stderr(`${error.message}\n`);
      return 1;
    }
  },
};
