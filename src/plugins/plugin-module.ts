/** Loads a plugin from a module of the operator, and checks that it keeps the contract. */
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { API_VERSION, HOOKS, type Hook, type Plugin } from './api.js';

/** The module cannot be used as a plugin. */
export class PluginLoadError extends Error {
  override readonly name = 'PluginLoadError';
}

const FUNCTIONS: readonly string[] = ['setup', 'close', ...HOOKS];
const MEMBERS: readonly string[] = ['apiVersion', 'resourceScheme', ...FUNCTIONS];
const SCHEME = /^[a-z][a-z0-9+.-]{2,40}$/;

/** Imports the default export of a path or a package. Throws `PluginLoadError`. */
export async function loadPluginModule(use: string, directory: string): Promise<Plugin> {
  let loaded: { readonly default?: unknown };
  try {
    loaded = (await import(specifierOf(use, directory))) as { readonly default?: unknown };
  } catch (error) {
    throw new PluginLoadError(`${use} cannot be loaded: ${error instanceof Error ? error.message : String(error)}`);
  }
  return checkedPlugin(loaded.default, use);
}

/** Packages are looked up in the folder of the operator first, and then beside the gateway. */
function specifierOf(use: string, directory: string): string {
  if (path.isAbsolute(use)) return pathToFileURL(use).href;
  try {
    return pathToFileURL(createRequire(path.join(directory, 'plugins.js')).resolve(use)).href;
  } catch {
    return use;
  }
}

/** The plugin, if it keeps the contract. Throws `PluginLoadError`. */
export function checkedPlugin(value: unknown, source: string): Plugin {
  const refuse = (problem: string): never => {
    throw new PluginLoadError(`${source} is not a plugin: ${problem}`);
  };
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return refuse('its default export is not an object');
  const plugin = value as Record<string, unknown>;
  if (plugin['apiVersion'] !== API_VERSION) refuse(`its apiVersion is not ${API_VERSION}`);
  // A member with an unknown name that looks like a hook is refused: a misspelt hook would never run.
  const unknown = Object.keys(plugin).find((key) => /^on[A-Z]/.test(key) && !MEMBERS.includes(key));
  if (unknown !== undefined) refuse(`it has the unknown hook ${unknown}; the hooks are ${HOOKS.join(', ')}`);
  for (const name of FUNCTIONS)
    if (plugin[name] !== undefined && typeof plugin[name] !== 'function')
      refuse(`its member ${name} is not a function`);
  const { resourceScheme: scheme } = plugin;
  if (scheme !== undefined && (typeof scheme !== 'string' || !SCHEME.test(scheme)))
    refuse('its resourceScheme is not a URI scheme');
  if (hooksOf(plugin as unknown as Plugin).length === 0) refuse(`it has none of the hooks ${HOOKS.join(', ')}`);
  return plugin as unknown as Plugin;
}

export const hooksOf = (plugin: Plugin): Hook[] => HOOKS.filter((hook) => plugin[hook] !== undefined);
