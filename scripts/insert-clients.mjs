// Puts what to paste into each client into the README. Run after `npm run build`.
import { readFileSync, writeFileSync } from 'node:fs';
import { clientSnippets, snippetsMarkdown } from '../dist/inbound/mcp/client-snippets.js';

const README = new URL('../README.md', import.meta.url);
const markdown = snippetsMarkdown(clientSnippets('http://127.0.0.1:4600/mcp'));
const text = readFileSync(README, 'utf8').replace(
  /(?<=<!-- clients -->\n)[\s\S]*(?=<!-- \/clients -->)/,
  () => markdown,
);
if (!text.includes(markdown)) throw new Error('README.md lacks <!-- clients --> or <!-- /clients -->');
writeFileSync(README, text);
