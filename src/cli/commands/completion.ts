import { type Command, HELP, UsageError } from '../command.js';
import { bashScript, fishScript, zshScript } from '../completion-scripts.js';

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;

export const COMPLETION: Command = {
  name: 'completion',
  operands: ['SHELL'],
  summary: 'Print the completion script for bash, zsh or fish.',
  details:
    'For bash, run: source <(parley completion bash). For zsh, write the output into a file _parley in a folder of\n' +
    '$fpath. For fish, write the output into ~/.config/fish/completions/parley.fish.',
  flags: [HELP],
  examples: ['parley completion bash', 'parley completion zsh', 'parley completion fish'],
  run: ({ io, commands, operands: [shell = ''] }) => {
    if (!Object.hasOwn(SCRIPTS, shell)) throw new UsageError('the shells are bash, zsh and fish', COMPLETION);
    io.stdout(SCRIPTS[shell as keyof typeof SCRIPTS](commands));
    return 0;
  },
};
