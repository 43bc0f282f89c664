import { called, runJobs, textOf } from './jobs.mjs';

export async function add(client) {
  const names = async () => {
    const found = [];
    let cursor;
    do {
      const page = await client.listTools(cursor === undefined ? {} : { cursor });
      found.push(...page.tools.map(({ name }) => name));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return found;
  };
  const perform = async ({ kind, name, uri, arguments: args }) => {
    if (kind === 'call') return called(await client.callTool({ name, arguments: args }));
    if (kind === 'read') return textOf((await client.readResource({ uri })).contents);
    const { messages } = await client.getPrompt({ name, arguments: args });
    return textOf(messages.map(({ content }) => content));
  };
  await runJobs(names, perform);
}
