/** A server whose definitions a test changes. */
import { type LooseServer, sendJson, startLoose } from '../support/counting-server.js';

export interface ChangingServer {
  readonly url: string;
  tools: object[];
  prompts: object[];
  instructions: string | undefined;
  /** The methods and names of the calls that arrived. */
  readonly calls: string[];
  close(): Promise<void>;
}

const KEPT = { ttlMs: 0, cacheScope: 'public', resultType: 'complete' };

export const toolNamed = (name: string, description: string): object => ({
  name,
  description,
  inputSchema: { type: 'object' },
});

export async function startChanging(tools: object[]): Promise<ChangingServer> {
  const calls: string[] = [];
  const offered: Pick<ChangingServer, 'tools' | 'prompts' | 'instructions'> = {
    tools,
    prompts: [],
    instructions: undefined,
  };
  const resultOf = (method: string | undefined, params: Readonly<Record<string, unknown>>): object | undefined => {
    switch (method) {
      case 'server/discover': {
        const capabilities = { tools: {}, prompts: {} };
        return { ...KEPT, supportedVersions: ['2026-07-28'], capabilities, instructions: offered.instructions };
      }
      case 'tools/list':
        return { ...KEPT, tools: offered.tools };
      case 'prompts/list':
        return { ...KEPT, prompts: offered.prompts };
      case 'tools/call':
        calls.push(`${method} ${params['name']}`);
        return { resultType: 'complete', content: [{ type: 'text', text: `called ${params['name']}` }] };
      case 'prompts/get':
        calls.push(`${method} ${params['name']}`);
        return { resultType: 'complete', messages: [] };
      default:
        return undefined;
    }
  };
  const server: LooseServer = await startLoose(({ id, method, params = {} }, res) => {
    if (id === undefined) return void res.writeHead(202).end();
    const result = resultOf(method, params);
    if (result) sendJson(res, { jsonrpc: '2.0', id, result });
    else {
      const error = { code: -32601, message: 'Method not found' };
      res.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, error }));
    }
  });
  return Object.assign(offered, { url: server.url, calls, close: () => server.close() });
}
