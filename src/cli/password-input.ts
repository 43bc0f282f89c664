import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';

/** Limit on the length of the input; no password is longer. */
const LONGEST = 4_096;

export interface PasswordSource {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
}

const TERMINAL: PasswordSource = { input: process.stdin, output: process.stderr };

/**
 * Reads a password: typed twice without echo at a terminal, otherwise the first line of stdin. A password is never an
 * argument, because other users of the machine can read arguments.
 */
export async function readPassword(source: PasswordSource = TERMINAL): Promise<string> {
  if (!source.input.isTTY) return firstLine(source.input);
  const password = await hidden(source, 'Password: ');
  if ((await hidden(source, 'Again: ')) !== password) throw new Error('the two passwords differ; nothing was changed');
  return password;
}

async function firstLine(input: NodeJS.ReadStream): Promise<string> {
  let text = '';
  for await (const chunk of input) {
    text += String(chunk);
    if (text.includes('\n') || text.length > LONGEST) break;
  }
  const [line = ''] = text.split(/\r?\n/, 1);
  if (line === '')
    throw new Error('there is no password: type it at a terminal, or send it on stdin, such as with: < password.txt');
  return line;
}

function hidden({ input, output }: PasswordSource, prompt: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
    const lines = createInterface({ input, output: silent, terminal: true });
    output.write(prompt);
    let answered = false;
    lines.on('SIGINT', () => lines.close());
    lines.question('', (answer) => {
      answered = true;
      output.write('\n');
      lines.close();
      resolve(answer);
    });
    lines.on('close', () => {
      if (!answered) reject(new Error('no password was given; nothing was changed'));
    });
  });
}
