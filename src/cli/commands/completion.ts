import { type Command, HELP, UsageError } from '../command.js';
import { bashScript, fishScript, zshScript } from '../completion.js';

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;

export const COMPLETION: Command = {
  name: 'completion',
  operands: ['SHELL'],
  summary: 'Print the completion script for bash, zsh or fish.',
  details:
    'bash: source <(parley completion bash). zsh: parley completion zsh into a file _parley of a folder of $fpath. fish:\n' +
    'parley completion fish into ~/.config/fish/completions/parley.fish.',
  flags: [HELP],
  examples: ['parley completion bash', 'parley completion zsh', 'parley completion fish'],
  run: ({ io, commands, operands: [shell = ''] }) => {
    if (!Object.hasOwn(SCRIPTS, shell)) throw new UsageError('the shells are bash, zsh and fish', COMPLETION);
    io.stdout(SCRIPTS[shell as keyof typeof SCRIPTS](commands));
    return 0;
  },
};
