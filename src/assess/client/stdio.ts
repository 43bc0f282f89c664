/** Serves the scripted server over stdio, for a client that starts it as a program. */
import { asObject, type Json, parseJson } from '../json.js';
import { ScriptedServer } from './scripted-server.js';
import type { Transcript } from './transcript.js';

/** The longest line that is read, in characters. */
const MAX_LINE = 4 * 1024 * 1024;

/** Resolves at the end of the input. */
export async function serveClientLines(
  transcript: Transcript,
  input: AsyncIterable<Buffer | string>,
  write: (line: string) => void,
): Promise<void> {
  const script = new ScriptedServer(transcript);
  const send = (message: Json): void => write(`${JSON.stringify(message)}\n`);
  const take = async (line: string): Promise<void> => {
    if (line.trim() === '') return;
    const message = parseJson(line);
    if (message === undefined) {
      if (transcript.garbage.length < 100) transcript.garbage.push(line.slice(0, 1_000));
      send({ jsonrpc: '2.0', id: null, error: { code: -32700, message: 'Not JSON' } });
      return;
    }
    transcript.hear(message);
    const reply = await script.receive(message, send);
    if (reply !== undefined) send(reply);
    if (asObject(message)['method'] === 'notifications/initialized') script.ask(send);
  };
  let rest = '';
  for await (const chunk of input) {
    rest += chunk.toString();
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > MAX_LINE) return;
    // Lines are taken at once: the answer to a question arrives while a call waits for it.
    for (const line of lines) take(line).catch(() => {});
  }
}
