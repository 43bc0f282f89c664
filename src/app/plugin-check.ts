/** `parley plugin check`: loads a plugin as the gateway does, without starting it. */
import path from 'node:path';
import { hooksOf, loadPluginModule, PluginLoadError } from '../plugins/plugin-module.js';

export { PluginLoadError };

export interface PluginFacts {
  readonly file: string;
  readonly apiVersion: number;
  readonly hooks: readonly string[];
  readonly setup: boolean;
  readonly close: boolean;
  readonly resourceScheme: string | undefined;
}

/** The facts of a plugin: a path relative to the folder, or the name of a package. Throws `PluginLoadError`. */
export async function checkPlugin(use: string, directory: string): Promise<PluginFacts> {
  const isPath = /[/\\]/.test(use.replace(/^@[\w.-]+\//, '')) || /\.[cm]?[jt]s$/.test(use);
  const file = isPath ? path.resolve(directory, use) : use;
  const plugin = await loadPluginModule(file, directory);
  const { apiVersion, resourceScheme } = plugin;
  return {
    ...{ file, apiVersion, resourceScheme },
    hooks: hooksOf(plugin),
    setup: plugin.setup !== undefined,
    close: plugin.close !== undefined,
  };
}
