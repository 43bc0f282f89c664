import type { Answer, Question } from '../app/commands/gateway-client.js';
import type { CliEnvironment } from './command.js';
import { firstLine, safeText } from './gateway-output.js';

/** How often a person may correct an answer. */
const TRIES = 3;

/**
 * Answers the questions of servers at the terminal. Without a terminal, or at the end of the input, the answer is
 * `cancel`.
 */
export function answerer(io: Pick<CliEnvironment, 'ask' | 'stderr'>): (question: Question) => Promise<Answer> {
  return async ({ message, url, properties, required }) => {
    io.stderr(`\n${safeText(message)}\n`);
    if (url !== undefined) {
      io.stderr(`Open this page: ${firstLine(url, 2_000)}\n`);
      const said = await io.ask?.('Continue when it is done? [Y/n] ');
      if (said === undefined) return { action: 'cancel' };
      return /^n/i.test(said.trim()) ? { action: 'decline' } : { action: 'accept' };
    }
    const content: Record<string, unknown> = {};
    for (const [name, schema] of Object.entries(properties)) {
      const value = await valueFor(name, schema, required.includes(name), io);
      if (value === CANCELLED) return { action: 'cancel' };
      if (value !== undefined) content[name] = value;
    }
    if (Object.keys(properties).length > 0) return { action: 'accept', content };
    const said = await io.ask?.('Accept? [y/N] ');
    if (said === undefined) return { action: 'cancel' };
    return /^y/i.test(said.trim()) ? { action: 'accept', content } : { action: 'decline' };
  };
}

const CANCELLED = Symbol('cancelled');

async function valueFor(
  name: string,
  schema: Readonly<Record<string, unknown>>,
  required: boolean,
  io: Pick<CliEnvironment, 'ask' | 'stderr'>,
): Promise<unknown> {
  const label = firstLine(String(schema['title'] ?? name));
  const about = schema['description'] === undefined ? '' : ` (${firstLine(String(schema['description']))})`;
  const preset = schema['default'];
  const hint = preset !== undefined ? ` [${firstLine(JSON.stringify(preset))}]` : required ? '' : ' [optional]';
  const choices = choicesOf(schema);
  const list = choices === undefined ? '' : ` one of ${choices.map((choice) => firstLine(choice)).join(', ')}`;
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const said = await io.ask?.(`${label}${about}${list}${hint}: `);
    if (said === undefined) return CANCELLED;
    if (said.trim() === '' && preset !== undefined) return preset;
    if (said.trim() === '' && !required) return undefined;
    const value = converted(said, schema, choices);
    if (value !== undefined) return value;
    io.stderr(`Write a value of the type ${firstLine(String(schema['type'] ?? 'string'))}${list}.\n`);
  }
  return CANCELLED;
}

/** The choices of a selection, in each of its spellings. */
function choicesOf(schema: Readonly<Record<string, unknown>>): string[] | undefined {
  const items = (schema['items'] ?? {}) as Readonly<Record<string, unknown>>;
  const plain = schema['enum'] ?? items['enum'];
  if (Array.isArray(plain)) return plain.map(String);
  const titled = schema['oneOf'] ?? items['anyOf'] ?? items['oneOf'];
  return Array.isArray(titled) ? titled.map((each: { const?: unknown }) => String(each.const)) : undefined;
}

function converted(
  said: string,
  { type }: Readonly<Record<string, unknown>>,
  choices: readonly string[] | undefined,
): unknown {
  const text = said.trim();
  if (type === 'boolean') return /^(y|yes|true)$/i.test(text) ? true : /^(n|no|false)$/i.test(text) ? false : undefined;
  if (type === 'number' || type === 'integer') {
    const number = Number(text);
    return text !== '' && Number.isFinite(number) && (type === 'number' || Number.isInteger(number))
      ? number
      : undefined;
  }
  if (type === 'array') {
    const list = text
      .split(',')
      .map((each) => each.trim())
      .filter((each) => each !== '');
    return choices === undefined || list.every((each) => choices.includes(each)) ? list : undefined;
  }
  return choices === undefined || choices.includes(text) ? said : undefined;
}
