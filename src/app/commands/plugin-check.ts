/** `parley plugin check`: loads a plugin as the gateway does, without starting it. */
import path from 'node:path';
import { PluginLoadError } from '../../plugins/plugin-module.js';
import { ThreadPlugin } from '../../plugins/thread/gateway-side.js';

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
export async function checkPlugin(use: string, directory: string, loadTime?: number): Promise<PluginFacts> {
  const isPath = /[/\\]/.test(use.replace(/^@[\w.-]+\//, '')) || /\.[cm]?[jt]s$/.test(use);
  const file = isPath ? path.resolve(directory, use) : use;
  const loaded = await ThreadPlugin.load({
    use: file,
    directory,
    ...LIMITS,
    ...(loadTime !== undefined && { loadTime }),
  });
  await loaded.close();
  const { apiVersion, hooks, setup, close, resourceScheme } = loaded.facts;
  return { file, apiVersion, hooks, setup, close, resourceScheme };
}

/** Those of the configuration by default. */
const LIMITS = { blockLimit: 1_000, memory: 256 * 2 ** 20 };
