/** A well-behaved server on the official SDK, in the test's own process. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import * as z from 'zod';

export interface EchoServer {
  readonly url: string;
  /** Every `tools/call` that arrived: the tool and its arguments. */
  readonly calls: { readonly name: string; readonly args: Readonly<Record<string, unknown>> }[];
  /** Calls that were cancelled while running. */
  readonly cancelled: string[];
  /** Texts of calls of `steps` that finished. */
  readonly done: string[];
  /** All HTTP requests that arrived, by method. */
  readonly hits: string[];
  readonly seenHeaders: string[];
  announce(): void;
  close(): Promise<void>;
}

const said = (text: string) => ({ content: [{ type: 'text' as const, text }] });

export async function startEcho(): Promise<EchoServer> {
  const calls: EchoServer['calls'] = [];
  const cancelled: string[] = [];
  const done: string[] = [];
  const hits: string[] = [];
  const seenHeaders: string[] = [];

  const build = (): McpServer => {
    const server = new McpServer(
      { name: 'echo', version: '1.0.0' },
      { capabilities: { tools: { listChanged: true }, resources: { listChanged: true }, prompts: {}, logging: {} } },
    );
    server.registerTool(
      'echo',
      { description: 'Returns the text', inputSchema: z.looseObject({ text: z.string() }) },
      async (args) => {
        calls.push({ name: 'echo', args });
        return said(args.text);
      },
    );
    server.registerTool(
      'wait',
      { description: 'Returns the text later', inputSchema: z.object({ text: z.string(), ms: z.number() }) },
      async ({ text, ms }, ctx) => {
        calls.push({ name: 'wait', args: { text, ms } });
        try {
          await delay(ms, undefined, { signal: ctx.mcpReq.signal });
        } catch {
          cancelled.push(text);
        }
        return said(text);
      },
    );
    server.registerTool(
      'steps',
      {
        description: 'Reports progress',
        inputSchema: z.object({ text: z.string(), count: z.number(), size: z.number(), pause: z.number() }),
      },
      async ({ text, count, size, pause }, ctx) => {
        calls.push({ name: 'steps', args: { text, count, size } });
        const progressToken = ctx.mcpReq._meta?.progressToken;
        for (let progress = 1; progress <= count && progressToken !== undefined; progress++) {
          if (ctx.mcpReq.signal.aborted) {
            cancelled.push(text);
            break;
          }
          await ctx.mcpReq.notify({
            method: 'notifications/progress',
            params: { progressToken, progress, total: count, message: `${text} ${'x'.repeat(size)}` },
          });
          await delay(pause);
        }
        done.push(text);
        return said(text);
      },
    );
    server.registerResource('note', 'echo://note', { mimeType: 'text/plain' }, async (uri) => ({
      contents: [{ uri: uri.href, text: 'a note', mimeType: 'text/plain' }],
    }));
    server.registerPrompt('greet', { description: 'A greeting' }, async () => ({
      messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'hello' } }],
    }));
    return server;
  };

  const handler = createMcpHandler(build, { legacy: 'reject' });
  const serve = toNodeHandler(handler);
  const server = createServer((req, res) => {
    hits.push(req.method ?? '');
    seenHeaders.push(...req.rawHeaders);
    void serve(req, res);
  });
  // A healthy server does not close the connection of a briefly busy gateway.
  server.keepAliveTimeout = 120_000;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    calls,
    cancelled,
    done,
    hits,
    seenHeaders,
    announce: () => handler.notify.toolsChanged(),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
