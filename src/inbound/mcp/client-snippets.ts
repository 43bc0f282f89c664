/**
 * The texts that a user pastes into a client to reach the gateway. The HTML page, the terminal and the README show the
 * texts of this table, and the tests run the clients with exactly these texts. Each program prints the names of the
 * tools that it finds.
 */
export type SnippetId =
  | 'claude-code'
  | 'claude-desktop'
  | 'cursor'
  | 'vscode'
  | 'windsurf'
  | 'python-sdk'
  | 'typescript-sdk'
  | 'openai-agents'
  | 'langchain'
  | 'vercel-ai';

export interface ClientSnippet {
  readonly id: SnippetId;
  readonly title: string;
  readonly language: 'sh' | 'json' | 'python' | 'typescript';
  /** The file for this text, if the client reads one. */
  readonly file?: string;
  /** The command that installs the library, if the text is a program. */
  readonly install?: string;
  readonly text: string;
}

export interface SnippetOptions {
  /** The name the client gives the gateway. */
  readonly name?: string;
  /** The bearer token to show if the gateway requires one: a placeholder, never a real token. */
  readonly token?: string;
}

export const TOKEN_PLACEHOLDER = 'YOUR_TOKEN';

const TOKEN_VARIABLE = 'AUTHORIZATION';

/** The snippets for the endpoint at `url`, in the order they are shown. */
export function clientSnippets(url: string, { name = 'parley', token }: SnippetOptions = {}): readonly ClientSnippet[] {
  const bearer = token === undefined ? undefined : `Bearer ${token}`;
  const headers = bearer === undefined ? {} : { headers: { Authorization: bearer } };
  return [
    {
      id: 'claude-code',
      title: 'Claude Code',
      language: 'sh',
      text: [
        `claude mcp add --transport http ${shellWord(name)} ${shellWord(url)}`,
        ...(bearer === undefined ? [] : [`--header ${shellWord(`Authorization: ${bearer}`)}`]),
      ].join(' '),
    },
    {
      id: 'claude-desktop',
      title: 'Claude Desktop',
      language: 'json',
      file: 'claude_desktop_config.json',
      text: json({ mcpServers: { [name]: remoteCommand(url, bearer) } }),
    },
    {
      id: 'cursor',
      title: 'Cursor',
      language: 'json',
      file: '.cursor/mcp.json',
      text: json({ mcpServers: { [name]: { url, ...headers } } }),
    },
    {
      id: 'vscode',
      title: 'VS Code',
      language: 'json',
      file: '.vscode/mcp.json',
      text: json({ servers: { [name]: { type: 'http', url, ...headers } } }),
    },
    {
      id: 'windsurf',
      title: 'Windsurf',
      language: 'json',
      file: '~/.codeium/windsurf/mcp_config.json',
      text: json({ mcpServers: { [name]: { serverUrl: url, ...headers } } }),
    },
    {
      id: 'python-sdk',
      title: 'Python SDK',
      language: 'python',
      install: 'pip install "mcp>=2"',
      text: bearer === undefined ? pythonOpen(url) : pythonWithToken(url, bearer),
    },
    {
      id: 'typescript-sdk',
      title: 'TypeScript SDK',
      language: 'typescript',
      install: 'npm install @modelcontextprotocol/client',
      text: typescript(url, bearer),
    },
    {
      id: 'openai-agents',
      title: 'OpenAI Agents SDK',
      language: 'python',
      install: 'pip install openai-agents',
      text: openaiAgents(name, url, bearer),
    },
    {
      id: 'langchain',
      title: 'LangChain',
      language: 'python',
      install: 'pip install langchain-mcp-adapters',
      text: langchain(name, url, bearer),
    },
    {
      id: 'vercel-ai',
      title: 'Vercel AI SDK',
      language: 'typescript',
      install: 'npm install @ai-sdk/mcp',
      text: vercel(url, bearer),
    },
  ];
}

/** The snippets as Markdown. */
export function snippetsMarkdown(snippets: readonly ClientSnippet[]): string {
  return snippets
    .map(({ title, file, install, language, text }) => {
      const place = file === undefined ? '' : `, in \`${file}\``;
      const library = install === undefined ? '' : `, \`${install}\``;
      return `**${title}**${place}${library}:\n\n\`\`\`${language}\n${text}\n\`\`\`\n`;
    })
    .join('\n');
}

/**
 * Claude Desktop starts only programs. The token is in an environment variable, because on Windows an argument with
 * spaces would be split.
 */
function remoteCommand(url: string, bearer: string | undefined): object {
  const { protocol, hostname } = new URL(url);
  const plain = protocol === 'http:' && !['localhost', '127.0.0.1'].includes(hostname);
  return {
    command: 'npx',
    args: [
      '-y',
      'mcp-remote',
      url,
      ...(plain ? ['--allow-http'] : []),
      ...(bearer === undefined ? [] : ['--header', `Authorization:\${${TOKEN_VARIABLE}}`]),
    ],
    ...(bearer !== undefined && { env: { [TOKEN_VARIABLE]: bearer } }),
  };
}

const pythonOpen = (url: string): string => `import asyncio
from mcp import Client

async def main():
    async with Client(${quoted(url)}) as client:
        found = await client.list_tools()
        print([tool.name for tool in found.tools])

asyncio.run(main())`;

const pythonWithToken = (url: string, bearer: string): string => `import asyncio
from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

async def main():
    http = create_mcp_http_client(headers={"Authorization": ${quoted(bearer)}})
    async with http, Client(streamable_http_client(${quoted(url)}, http_client=http)) as client:
        found = await client.list_tools()
        print([tool.name for tool in found.tools])

asyncio.run(main())`;

const typescript = (url: string, bearer: string | undefined): string =>
  `import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const client = new Client({ name: 'example', version: '1.0.0' });
await client.connect(new StreamableHTTPClientTransport(new URL(${single(url)})${
    bearer === undefined ? '' : `, {\n  requestInit: { headers: { Authorization: ${single(bearer)} } },\n}`
  }));
const { tools } = await client.listTools();
console.log(tools.map((tool) => tool.name));
await client.close();`;

const openaiAgents = (name: string, url: string, bearer: string | undefined): string => `import asyncio
from agents import Agent
from agents.mcp import MCPServerStreamableHttp

async def main():
    params = {"url": ${quoted(url)}${pythonHeaders(bearer)}}
    async with MCPServerStreamableHttp(name=${quoted(name)}, params=params) as server:
        agent = Agent(name="assistant", mcp_servers=[server])
        print([tool.name for tool in await server.list_tools()])

asyncio.run(main())`;

const langchain = (name: string, url: string, bearer: string | undefined): string => `import asyncio
from langchain_mcp_adapters.client import MultiServerMCPClient

async def main():
    connection = {"transport": "streamable_http", "url": ${quoted(url)}${pythonHeaders(bearer)}}
    client = MultiServerMCPClient({${quoted(name)}: connection})
    print([tool.name for tool in await client.get_tools()])

asyncio.run(main())`;

const vercel = (url: string, bearer: string | undefined): string => `import { createMCPClient } from '@ai-sdk/mcp';

const client = await createMCPClient({
  transport: { type: 'http', url: ${single(url)}${
    bearer === undefined ? '' : `, headers: { Authorization: ${single(bearer)} }`
  } },
});
const tools = await client.tools();
console.log(Object.keys(tools));
await client.close();`;

function json(value: object): string {
  return JSON.stringify(value, null, 2);
}

/** A Python string literal. It equals JSON for the characters of a URL or a token. */
function quoted(text: string): string {
  return JSON.stringify(text);
}

/** A TypeScript string literal in single quotes. */
function single(text: string): string {
  return `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
}

function pythonHeaders(bearer: string | undefined): string {
  return bearer === undefined ? '' : `, "headers": {"Authorization": ${quoted(bearer)}}`;
}

/** One word for a POSIX shell, in double quotes if possible, because other shells also support them. */
function shellWord(text: string): string {
  if (/^[\w.:/@%+,=-]+$/.test(text)) return text;
  return /["$`\\!]/.test(text) ? `'${text.replaceAll("'", `'\\''`)}'` : `"${text}"`;
}
