/** Runs the jobs of the test with a connected client, and prints one line per result for the test. */
import { readFile } from 'node:fs/promises';

const tell = (facts) => process.stdout.write(`RESULT ${JSON.stringify(facts)}\n`);

/** `names` returns the names of all tools; `perform` does one job and returns its text. */
export async function runJobs(names, perform) {
  tell({ tools: await names() });
  for (const job of JSON.parse(await readFile(process.env.JOBS, 'utf8'))) {
    try {
      tell({ job: job.id, text: await perform(job) });
    } catch (error) {
      tell({ job: job.id, error: `${error?.name}: ${error?.message}` });
    }
  }
}

export function textOf(content) {
  return [content]
    .flat()
    .map((block) => block.text ?? block.resource?.text ?? JSON.stringify(block))
    .join('\n');
}

/** The text of a tool's result; throws if `isError` is set. */
export function called(result) {
  if (result.isError) throw new Error(textOf(result.content));
  return textOf(result.content);
}
