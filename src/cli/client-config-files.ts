import { homedir } from 'node:os';
import path from 'node:path';
import type { CliEnvironment } from './command.js';

/** An MCP client, and the places of its configuration. */
export interface ClientFiles {
  readonly id: string;
  readonly title: string;
  /** The file of the user. */
  readonly user: (places: Places) => string;
  /** The file of a project, relative to the project's folder. */
  readonly project?: string;
  /** The key of the map of servers in the file. */
  readonly container: 'mcpServers' | 'servers';
}

export interface Places {
  readonly home: string;
  /** The folder of settings of applications, such as `~/.config`. */
  readonly settings: string;
}

export const CLIENTS: readonly ClientFiles[] = [
  {
    id: 'claude',
    title: 'Claude Desktop',
    user: ({ settings }) => path.join(settings, 'Claude', 'claude_desktop_config.json'),
    container: 'mcpServers',
  },
  {
    id: 'claude-code',
    title: 'Claude Code',
    user: ({ home }) => path.join(home, '.claude.json'),
    project: '.mcp.json',
    container: 'mcpServers',
  },
  {
    id: 'cursor',
    title: 'Cursor',
    user: ({ home }) => path.join(home, '.cursor', 'mcp.json'),
    project: path.join('.cursor', 'mcp.json'),
    container: 'mcpServers',
  },
  {
    id: 'vscode',
    title: 'VS Code',
    user: ({ settings }) => path.join(settings, 'Code', 'User', 'mcp.json'),
    project: path.join('.vscode', 'mcp.json'),
    container: 'servers',
  },
  {
    id: 'windsurf',
    title: 'Windsurf',
    user: ({ home }) => path.join(home, '.codeium', 'windsurf', 'mcp_config.json'),
    container: 'mcpServers',
  },
];

/** The folders of this user, on Linux, macOS and Windows. */
export function placesOf({ env }: Pick<CliEnvironment, 'env'>, platform: NodeJS.Platform = process.platform): Places {
  const home = given(env['HOME']) ?? given(env['USERPROFILE']) ?? homedir();
  if (platform === 'darwin') return { home, settings: path.join(home, 'Library', 'Application Support') };
  if (platform === 'win32') return { home, settings: given(env['APPDATA']) ?? path.join(home, 'AppData', 'Roaming') };
  return { home, settings: given(env['XDG_CONFIG_HOME']) ?? path.join(home, '.config') };
}

const given = (value: string | undefined): string | undefined => (value === '' ? undefined : value);

/** Every file that `parley import --discover` looks for, with the name of its program. */
export function discoverableFiles(io: Pick<CliEnvironment, 'env' | 'cwd'>): { title: string; file: string }[] {
  const places = placesOf(io);
  return [
    ...CLIENTS.flatMap(({ title, user, project }) => [
      { title, file: user(places) },
      ...(project === undefined ? [] : [{ title: `${title}, this folder`, file: path.join(io.cwd, project) }]),
    ]),
    { title: 'LiteLLM, this folder', file: path.join(io.cwd, 'litellm_config.yaml') },
    { title: 'agentgateway, this folder', file: path.join(io.cwd, 'agentgateway.yaml') },
  ];
}
