import path from 'node:path';
import { parseText, type Raw } from '../parsed-file.js';
import { ConfigError, Problems } from '../problem.js';
import { importAgentgateway, isAgentgateway } from './agentgateway.js';
import { importServers, otherKeys, type ServerMap } from './client-files.js';
import { importDockerCatalog, isDockerCatalog } from './docker-catalog.js';
import { type Imported, type ImportFormat, isMap, type Json, type JsonMap, mapOf } from './entries.js';
import { importServerJson, isServerJson } from './server-json.js';

/** Limit on the size of a file; no configuration is larger. */
export const LARGEST_FILE = 16 * 2 ** 20;

const OTHER_PROGRAM = 'it is not about MCP servers';

/** Reads a configuration of another program. Throws a `ConfigError` for a syntax error or an unknown format. */
export function importText(text: string, file: string): Imported {
  const problems = new Problems();
  const origin = { file, directory: path.dirname(file) };
  const format = /\.jsonc?$/i.test(file) ? 'json' : 'yaml';
  const raw = parseText(text, format, origin, problems);
  if (raw === undefined) throw new ConfigError(problems.all);
  const value = plain(raw);
  const found = isMap(value) ? read(value, file) : undefined;
  if (found !== undefined) return found;
  problems.error(
    'file',
    '',
    'the format is not known',
    'name a file of Claude, Cursor, VS Code, Windsurf, LiteLLM, agentgateway, a Docker catalogue, or a server.json',
    origin,
  );
  throw new ConfigError(problems.all);
}

function read(root: JsonMap, file: string): Imported | undefined {
  const workspace = workspaceOf(file);
  const clients = (format: ImportFormat, maps: readonly ServerMap[], known: readonly string[]): Imported => ({
    format,
    entries: maps.flatMap(importServers),
    notes: otherKeys(root, known, OTHER_PROGRAM),
  });
  if (isMap(root['mcp_servers'])) {
    const map = { container: 'mcp_servers', at: 'mcp_servers', servers: root['mcp_servers'], workspace } as const;
    return clients('litellm', [map], ['mcp_servers']);
  }
  const own = { container: 'mcpServers', at: 'mcpServers', servers: mapOf(root['mcpServers']), workspace } as const;
  if (isMap(root['projects'])) {
    const maps = Object.entries(root['projects']).map(([folder, project]) => ({
      container: 'mcpServers' as const,
      at: `projects.${folder}.mcpServers`,
      servers: mapOf(mapOf(project)['mcpServers']),
      workspace: folder,
    }));
    // The file of Claude Code holds its whole state; the report names the servers only.
    return { format: 'claude-code', entries: [own, ...maps].flatMap(importServers), notes: [] };
  }
  if (isMap(root['mcpServers'])) return clients('mcpservers', [own], ['mcpServers']);
  const settings = mapOf(root['mcp']);
  if (isMap(settings['servers']) && !isAgentgateway(root)) {
    const inputs = settings['inputs'];
    const map = { container: 'servers', at: 'mcp.servers', servers: settings['servers'], workspace } as const;
    return {
      format: 'vscode',
      entries: importServers({ ...map, ...(inputs !== undefined && { inputs }) }),
      notes: [],
    };
  }
  if (isAgentgateway(root))
    return { format: 'agentgateway', ...importAgentgateway(root, path.dirname(path.resolve(file))) };
  if (isServerJson(root)) return { format: 'server-json', entries: importServerJson(root), notes: [] };
  if (isDockerCatalog(root)) return { format: 'docker', entries: importDockerCatalog(root), notes: [] };
  if (isMap(root['servers'])) {
    const { servers, inputs } = root;
    const map = { container: 'servers', at: 'servers', servers, workspace } as const;
    return clients('vscode', [{ ...map, ...(inputs !== undefined && { inputs }) }], ['servers', 'inputs']);
  }
  return undefined;
}

/** The workspace is the folder that contains `.vscode` or `.cursor`. */
function workspaceOf(file: string): string {
  const folder = path.dirname(path.resolve(file));
  return ['.vscode', '.cursor'].includes(path.basename(folder)) ? path.dirname(folder) : folder;
}

function plain(raw: Raw): Json {
  if (raw.kind === 'scalar') return raw.value;
  if (raw.kind === 'list') return raw.items.map(plain);
  return Object.fromEntries([...raw.entries].map(([name, { node }]) => [name, plain(node)]));
}
