import { createInterface } from 'node:readline';

/** Asks one question on the terminal. Returns undefined without a terminal, or if the input ends. */
export function askTerminal(question: string): Promise<string | undefined> {
  const { stdin: input, stderr: output } = process;
  if (!input.isTTY || !output.isTTY) return Promise.resolve(undefined);
  return new Promise((resolve) => {
    const lines = createInterface({ input, output });
    lines.on('SIGINT', () => lines.close());
    lines.on('close', () => resolve(undefined));
    lines.question(question, (answer) => {
      resolve(answer);
      lines.close();
    });
  });
}
