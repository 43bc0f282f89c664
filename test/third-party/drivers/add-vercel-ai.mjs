import { called, runJobs, textOf } from './jobs.mjs';

export async function add(client) {
  const tools = await client.tools();
  const perform = async ({ id, kind, name, uri, arguments: args }) => {
    if (kind === 'call') return called(await tools[name].execute(args, { toolCallId: String(id), messages: [] }));
    if (kind === 'read') return textOf((await client.readResource({ uri })).contents);
    const { messages } = await client.experimental_getPrompt({ name, arguments: args });
    return textOf(messages.map(({ content }) => content));
  };
  await runJobs(async () => Object.keys(tools), perform);
}
