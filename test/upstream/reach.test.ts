/** Servers with forward proxies, private authorities and client certificates, as configured. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttp } from 'node:http';
import { createServer as createHttps } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { textOf } from '../input/support/message.js';
import { modernCall } from '../input/support/speak.js';
import { Authority } from '../support/certificate.js';
import { type GatewayOptions, startGateway } from '../support/gateway.js';
import { type ForwardProxy, startTinyproxy } from '../support/services.js';

const folder = mkdtempSync(path.join(tmpdir(), 'parley-reach-'));
const authority = new Authority();
const stranger = new Authority();
const closing: (() => unknown)[] = [];
let plain: string;
let secure: string;
let guarded: string;
let proxy: ForwardProxy;

const file = (name: string, text: string): string => {
  const place = path.join(folder, name);
  writeFileSync(place, text, { mode: 0o600 });
  return place;
};

/** An MCP server with one tool, which returns the client's certificate name and its proxy. */
const answer: Parameters<typeof createHttp>[1] = async (req, res) => {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  const { id, method } = JSON.parse(Buffer.concat(chunks).toString()) as { id: number; method: string };
  const base = { resultType: 'complete', ttlMs: 60_000, cacheScope: 'public' };
  const caller = (req.socket as TLSSocket).getPeerCertificate?.()?.subject?.CN ?? 'nobody';
  const result =
    method === 'server/discover'
      ? { ...base, supportedVersions: ['2026-07-28'], capabilities: { tools: {} } }
      : method === 'tools/list'
        ? { ...base, tools: [{ name: 'who', inputSchema: { type: 'object' } }] }
        : { ...base, content: [{ type: 'text', text: `${caller} via ${req.headers.via ?? 'nothing'}` }] };
  res.setHeader('content-type', 'application/json').end(JSON.stringify({ jsonrpc: '2.0', id, result }));
};

async function listen(server: Server & { closeAllConnections?(): void }, scheme: string): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => {
    server.closeAllConnections?.();
    return new Promise((resolve) => server.close(resolve));
  });
  return `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

beforeAll(async () => {
  const certificate = authority.sign('server', '127.0.0.1');
  plain = await listen(createHttp(answer), 'http');
  secure = await listen(createHttps(certificate, answer), 'https');
  guarded = await listen(createHttps({ ...certificate, ca: authority.cert, requestCert: true }, answer), 'https');
  proxy = await startTinyproxy();
  closing.push(() => proxy.stop());
});
afterAll(async () => {
  for (const close of closing.reverse()) await close();
  rmSync(folder, { recursive: true });
});

/** The answer of the tool of each server through one gateway. */
async function callEach<Name extends string>(
  servers: Record<Name, object>,
  options: GatewayOptions = {},
): Promise<Record<Name, string>> {
  const gateway = await startGateway({ servers, log: { level: 'warn' } }, options);
  try {
    const answers = Object.keys(servers).map(async (name) => {
      const reply = await modernCall(`${gateway.url}/mcp`, `${name}__who`, {});
      return [name, reply.json.result ? textOf(reply.json) : JSON.stringify(reply.json.error)];
    });
    return Object.fromEntries(await Promise.all(answers)) as Record<Name, string>;
  } finally {
    await gateway.close();
  }
}
const tunnelled = (): number => proxy.log().match(/CONNECT 127\.0\.0\.1/g)?.length ?? 0;

const PROXIED = expect.stringMatching(/^nobody via 1\.1 /);

describe('a forward proxy', () => {
  it('is used for an http server where configured, and opens a tunnel to an https server', async () => {
    const before = tunnelled();
    const answers = await callEach({
      proxied: { url: plain, proxy: proxy.url },
      direct: { url: plain },
      tunnel: { url: secure, proxy: proxy.url, tls: { ca: file('ca.pem', authority.cert) } },
    });
    expect(answers).toEqual({ proxied: PROXIED, direct: 'nobody via nothing', tunnel: 'nobody via nothing' });
    expect(tunnelled()).toBeGreaterThan(before);
  });

  it.each([
    ['HTTP_PROXY', 'NO_PROXY'],
    ['http_proxy', 'no_proxy'],
  ])('comes from %s, unless %s excludes the server', async (name, exempt) => {
    const env = { [name]: proxy.url };
    expect(await callEach({ it: { url: plain }, none: { url: plain, proxy: 'none' } }, { env })).toEqual({
      it: PROXIED,
      none: 'nobody via nothing',
    });
    const exempted = { env: { ...env, [exempt]: 'localhost,127.0.0.1' } };
    expect(await callEach({ it: { url: plain } }, exempted)).toEqual({ it: 'nobody via nothing' });
  });

  it('comes from HTTPS_PROXY for https', async () => {
    const before = tunnelled();
    const env = { HTTPS_PROXY: proxy.url };
    const servers = { https: { url: secure, tls: { ca: authority.cert } }, http: { url: plain } };
    expect(await callEach(servers, { env })).toEqual({ https: 'nobody via nothing', http: 'nobody via nothing' });
    expect(tunnelled()).toBeGreaterThan(before);
  });

  it('may require credentials', async () => {
    const strict = await startTinyproxy({ user: 'ada', password: 'secret' });
    try {
      const url = `http://ada:secret@127.0.0.1:${strict.port}`;
      const tls = { ca: authority.cert };
      const answers = await callEach({
        http: { url: plain, proxy: url },
        https: { url: secure, proxy: url, tls },
        anonymous: { url: secure, proxy: strict.url, tls },
      });
      expect(answers).toEqual({
        http: PROXIED,
        https: 'nobody via nothing',
        anonymous: expect.stringMatching(/407|PROXY/),
      });
    } finally {
      await strict.stop();
    }
  });
});

describe('a server that requires a client certificate of a private authority', () => {
  it('is reached with such a certificate, in files or in the configuration, and through a proxy', async () => {
    const ada = authority.sign('ada');
    const tls = { ca: file('ca.pem', authority.cert), cert: file('ada.pem', ada.cert), key: file('ada.key', ada.key) };
    const inline = { ca: authority.cert, ...ada };
    const answers = await callEach({
      files: { url: guarded, tls },
      inline: { url: guarded, tls: inline },
      proxied: { url: guarded, tls: inline, proxy: proxy.url },
    });
    expect(answers).toEqual({ files: 'ada via nothing', inline: 'ada via nothing', proxied: 'ada via nothing' });
  });

  it('is not reached without a certificate, or with one of another authority', async () => {
    const answers = await callEach({
      nobody: { url: guarded, tls: { ca: authority.cert } },
      stranger: { url: guarded, tls: { ca: authority.cert, ...stranger.sign('eve') } },
      distrusting: { url: guarded },
    });
    expect(answers).toEqual({
      nobody: expect.stringMatching(/upstream_/),
      stranger: expect.stringMatching(/upstream_/),
      distrusting: expect.stringMatching(/upstream_unavailable/),
    });
  });
});
