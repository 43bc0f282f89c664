import type { PinCommands, PinDetail } from '../../app/commands/pins.js';
import { hasConfiguration, loadConfig } from '../../config/load.js';
import { CONFIG, type Command, type CommandLine, type Flag, HELP, JSON_OUTPUT, UsageError } from '../command.js';
import { diffText, listText, pinJson, stateOf, type Visible } from '../pins-output.js';

const ALL: Flag = { name: 'all', description: 'Approve the items of every server.' };
const FLAGS: readonly Flag[] = [CONFIG, JSON_OUTPUT, HELP];
const ITEM = ['SERVER', 'TOOL'] as const;

/** Runs `work` on the storage of the configuration; a running gateway sees changes within a second. */
async function open(
  { io, text }: CommandLine,
  work: (pins: PinCommands, visible: Visible) => Promise<number>,
): Promise<number> {
  const file = hasConfiguration({ ...io, file: text('config') }) ? text('config') : io.quickstart;
  const { config } = loadConfig({ ...io, file });
  const { withPins, visibleText } = await import('../../app/commands/pins.js');
  return withPins(config, (pins) => work(pins, visibleText));
}

/** The pins that the command line names. Throws if a named pin does not exist. */
async function named(pins: PinCommands, [server, tool]: readonly string[]): Promise<PinDetail[]> {
  const found = await pins.list(server, tool);
  if (found.length > 0 || server === undefined) return found;
  const item = tool === undefined ? `of server "${server}"` : `"${tool}" of server "${server}"`;
  throw new Error(`nothing ${item} is pinned; parley pins list shows all pins`);
}

const json = (value: object): string => `${JSON.stringify(value, null, 2)}\n`;

export const PINS_LIST: Command = {
  name: 'pins list',
  optional: ITEM,
  summary: 'List the pinned definitions of tools, with changes and suspicious text.',
  details:
    'Lists the tools, prompts, resource templates and introductions of servers that the gateway has pinned, whether\n' +
    'each still has its pinned definition, and flags for hidden characters and suspicious text. Reads the database of\n' +
    'the configuration; the gateway need not run.',
  flags: FLAGS,
  examples: ['parley pins list', 'parley pins list files --json'],
  run: (line) =>
    open(line, async (pins, visible) => {
      const found = await named(pins, line.operands);
      line.io.stdout(line.given('json') ? json({ pins: found.map(pinJson) }) : listText(found, visible));
      return 0;
    }),
};

export const PINS_DIFF: Command = {
  name: 'pins diff',
  optional: ITEM,
  summary: 'Show what changed in definitions that need an approval.',
  details:
    'Shows the difference between the approved definition and the one that the server offered last, with hidden\n' +
    'characters as \\u{…}. The exit code is 1 if there is a difference, as with diff.',
  flags: FLAGS,
  examples: ['parley pins diff', 'parley pins diff files read_file'],
  run: (line) =>
    open(line, async (pins, visible) => {
      const { io, given, operands } = line;
      const found = (await named(pins, operands)).filter((pin) => stateOf(pin) !== 'pinned');
      if (given('json')) {
        const details = found.map((pin) => ({
          ...pinJson(pin),
          before: parsed(pin.definition),
          after: parsed(pin.seenDefinition ?? ''),
        }));
        io.stdout(json({ changes: details }));
      } else if (found.length === 0) io.stdout('No definition needs an approval.\n');
      else io.stdout(found.map((pin) => diffText(pin, visible, io.style)).join('\n'));
      return found.length > 0 ? 1 : 0;
    }),
};

export const PINS_APPROVE: Command = {
  name: 'pins approve',
  optional: ITEM,
  summary: 'Approve changed definitions.',
  details:
    'Pins the definitions that the server offered last; the items are offered again within a second. Read the changes\n' +
    'with parley pins diff first. An item that changes again before the approval is not approved: the exit code is 1.',
  flags: [...FLAGS, ALL],
  examples: ['parley pins approve files read_file', 'parley pins approve files', 'parley pins approve --all'],
  run: (line) => {
    const { io, operands, given } = line;
    if (operands.length === 0 && !given('all'))
      throw new UsageError('name the server whose definitions you approve, or give --all', PINS_APPROVE);
    return open(line, async (pins, visible) => {
      const waiting = (await named(pins, operands)).filter((pin) => stateOf(pin) !== 'pinned');
      const results: { pin: PinDetail; approved: boolean }[] = [];
      for (const pin of waiting) results.push({ pin, approved: await pins.approve(pin) });
      const failed = results.some(({ approved }) => !approved);
      if (given('json'))
        io.stdout(json({ approvals: results.map(({ pin, approved }) => ({ ...pinJson(pin), approved })) }));
      else if (results.length === 0) io.stdout('No definition needs an approval.\n');
      else
        for (const { pin, approved } of results)
          io.stdout(
            `${pin.server} ${pin.kind} ${visible(pin.name)}: ${approved ? 'approved' : 'changed again; read parley pins diff'}\n`,
          );
      return failed ? 1 : 0;
    });
  },
};

export const PINS_FORGET: Command = {
  name: 'pins forget',
  operands: ['SERVER'],
  optional: ['TOOL'],
  summary: 'Forget pins, so that the gateway pins the next definitions like those of a new server.',
  details:
    'Use this after you replaced a server by another server under the same name. The gateway then pins the next\n' +
    'definitions of the server, and asks for no approval.',
  flags: FLAGS,
  examples: ['parley pins forget files', 'parley pins forget files read_file'],
  run: (line) =>
    open(line, async (pins) => {
      const [server = '', tool] = line.operands;
      const removed = await pins.forget(server, tool);
      if (removed === 0) await named(pins, line.operands);
      line.io.stdout(line.given('json') ? json({ removed }) : `Forgot ${removed} pins.\n`);
      return 0;
    }),
};

function parsed(definition: string): unknown {
  if (definition === '') return null;
  try {
    return JSON.parse(definition);
  } catch {
    // The stored text of a very long definition is cut.
    return definition;
  }
}
