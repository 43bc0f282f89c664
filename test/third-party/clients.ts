/** The third-party clients of the test, and the program or command that runs each. */
import type { Package } from './packages.js';

export type Kind = 'call' | 'read' | 'prompt';

/** The capabilities of a client; `elicitation` is by forms, `url` also by links. */
export type Capability = 'elicitation' | 'url' | 'sampling' | 'roots';

export const NO_CAPABILITIES: readonly Capability[] = [];
export const ALL_CAPABILITIES: readonly Capability[] = ['elicitation', 'url', 'sampling', 'roots'];

export interface Client {
  readonly name: string;
  readonly package: Package;
  /**
   * `snippet`: the snippet of the documents and the page, with one added line that runs the jobs.
   * `program`: a program in `drivers/`, for clients that have no snippet.
   * `inspector`, `stdio`, `health`: see run-client.ts.
   */
  readonly how: 'snippet' | 'program' | 'inspector' | 'stdio' | 'health';
  /** The name of the snippet, for clients with a snippet. */
  readonly snippet?: string;
  /** The file in `drivers/`. */
  readonly driver?: string;
  /** The variable of the snippet that holds the connected object. */
  readonly variable?: string;
  /** The functions of its interface; every client lists tools. */
  readonly can: readonly Kind[];
  readonly declares: readonly Capability[];
}

const ALL: readonly Kind[] = ['call', 'read', 'prompt'];
const pypi = (name: string, version: string, extras?: string): Package => ({
  registry: 'pypi',
  name,
  version,
  ...(extras !== undefined && { extras }),
});
const npm = (name: string, version: string, more: Partial<Package> = {}): Package => ({
  registry: 'npm',
  name,
  version,
  ...more,
});

export const ADK = pypi('google-adk', '2.13.0', 'a2a,mcp');

export const CLIENTS: readonly Client[] = [
  {
    name: 'Python SDK',
    package: pypi('mcp', '2.3.0'),
    how: 'snippet',
    snippet: 'python-sdk',
    driver: 'add_python_sdk.py',
    variable: 'client',
    can: ALL,
    declares: [],
  },
  {
    name: 'TypeScript SDK',
    package: npm('@modelcontextprotocol/client', '2.4.0'),
    how: 'snippet',
    snippet: 'typescript-sdk',
    driver: 'add-typescript-sdk.mjs',
    variable: 'client',
    can: ALL,
    declares: [],
  },
  {
    name: 'OpenAI Agents SDK',
    package: pypi('openai-agents', '0.24.0'),
    how: 'snippet',
    snippet: 'openai-agents',
    driver: 'add_openai_agents.py',
    variable: 'server',
    can: ALL,
    declares: [],
  },
  {
    name: 'LangChain',
    package: pypi('langchain-mcp-adapters', '0.3.2'),
    how: 'snippet',
    snippet: 'langchain',
    driver: 'add_langchain.py',
    variable: 'client',
    can: ALL,
    declares: [],
  },
  {
    name: 'Vercel AI SDK',
    package: npm('@ai-sdk/mcp', '2.0.96'),
    how: 'snippet',
    snippet: 'vercel-ai',
    driver: 'add-vercel-ai.mjs',
    variable: 'client',
    can: ALL,
    declares: [],
  },
  {
    name: 'Claude Desktop',
    package: npm('mcp-remote', '0.15.1'),
    how: 'stdio',
    snippet: 'claude-desktop',
    can: ALL,
    declares: [],
  },
  {
    // Its command line shows the state of a server. Other functions need a login and a model.
    name: 'Claude Code',
    package: npm('@anthropic-ai/claude-code', '2.1.325', { installScript: true }),
    how: 'health',
    snippet: 'claude-code',
    can: [],
    declares: [],
  },
  {
    name: 'FastMCP',
    package: pypi('fastmcp', '4.1.2'),
    how: 'program',
    driver: 'run_fastmcp.py',
    can: ALL,
    declares: ALL_CAPABILITIES,
  },
  {
    name: 'Pydantic AI',
    package: pypi('pydantic-ai-slim', '2.66.0', 'mcp'),
    how: 'program',
    driver: 'run_pydantic_ai.py',
    can: ALL,
    declares: [],
  },
  {
    name: 'mcp-use',
    package: pypi('mcp-use', '1.7.1'),
    how: 'program',
    driver: 'run_mcp_use.py',
    can: ALL,
    declares: ['roots'],
  },
  {
    // It has no prompts.
    name: 'Google ADK',
    package: ADK,
    how: 'program',
    driver: 'run_google_adk.py',
    can: ['call', 'read'],
    declares: [],
  },
  {
    name: 'MCP Inspector',
    package: npm('@modelcontextprotocol/inspector', '2.12.0'),
    how: 'inspector',
    can: ALL,
    declares: ['roots'],
  },
];
