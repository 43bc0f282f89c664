/** A real headless Chromium with an empty profile. It makes no requests of its own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import { chromium as chromiumPath } from './services.js';

export interface Browser {
  readonly context: BrowserContext;
  /** The URLs of all requests so far. */
  readonly requests: readonly string[];
  page(): Promise<Page>;
  close(): Promise<void>;
}

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export interface BrowserOptions {
  readonly viewport?: { readonly width: number; readonly height: number };
  readonly javaScript?: boolean;
}

export async function startBrowser({ viewport, javaScript = true }: BrowserOptions = {}): Promise<Browser> {
  const profile = await mkdtemp(join(tmpdir(), 'parley-chromium-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: await chromiumPath(),
    headless: true,
    args: FLAGS,
    javaScriptEnabled: javaScript,
    viewport: viewport ?? { width: 1280, height: 800 },
  });
  const requests: string[] = [];
  context.on('request', (request) => requests.push(request.url()));
  return {
    context,
    requests,
    page: () => context.newPage(),
    close: async () => {
      await context.close();
      await rm(profile, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
