// Inserts the client snippets of the info page into README.md (the first clients) and docs/clients.md (all of them).
// With --check it only reports whether they are there. Run after `npm run build`.
//   node scripts/insert-clients.mjs [--check]
import { readFileSync, writeFileSync } from 'node:fs';
import { clientSnippets, snippetsMarkdown } from '../dist/inbound/mcp/client-snippets.js';

const IN_README = ['claude-code', 'claude-desktop', 'cursor', 'vscode', 'typescript-sdk'];
const snippets = clientSnippets('http://127.0.0.1:4600/mcp');
const DOCUMENTS = [
  { name: 'README.md', shown: snippets.filter(({ id }) => IN_README.includes(id)) },
  { name: 'docs/clients.md', shown: snippets },
];

for (const { name, shown } of DOCUMENTS) {
  const file = new URL(`../${name}`, import.meta.url);
  const markdown = snippetsMarkdown(shown);
  const before = readFileSync(file, 'utf8');
  const after = before.replace(/(?<=<!-- clients -->\n)[\s\S]*(?=<!-- \/clients -->)/, () => markdown);
  if (!after.includes(markdown)) throw new Error(`${name} lacks <!-- clients --> or <!-- /clients -->`);
  if (before === after) continue;
  if (process.argv.includes('--check')) {
    console.error(`${name} does not show the client snippets of the gateway; run: node scripts/insert-clients.mjs`);
    process.exitCode = 1;
  } else {
    writeFileSync(file, after);
    console.log(`${name}: the client snippets were inserted`);
  }
}
