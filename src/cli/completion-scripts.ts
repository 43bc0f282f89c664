import type { Command, Flag } from './command.js';

/**
 * Completion scripts. They are generated from the descriptions of the commands, so they know every command and option.
 */

const wordsOf = ({ name }: Command): readonly [string, string?] => name.split(' ') as [string, string?];

function firstWords(commands: readonly Command[]): string[] {
  return [...new Set(commands.map((command) => wordsOf(command)[0]))];
}

function secondWords(first: string, commands: readonly Command[]): string[] {
  return commands.flatMap((command) => {
    const [head, second] = wordsOf(command);
    return head === first && second !== undefined ? [second] : [];
  });
}

const longFlags = (flags: readonly Flag[]): string => flags.map(({ name }) => `--${name}`).join(' ');

export function bashScript(commands: readonly Command[]): string {
  const groups = firstWords(commands).filter((first) => secondWords(first, commands).length > 0);
  const flags = commands.map((command) => `    ${bashPattern(command)}) flags="${longFlags(command.flags)}" ;;`);
  return `# bash completion for parley
_parley() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" flags=""
  COMPREPLY=()
  case "$previous" in
    --config|-c|--file) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${firstWords(commands).join(' ')} --help --version" -- "$current"))
    return
  fi
  if [ "$COMP_CWORD" -eq 2 ]; then
    case "\${COMP_WORDS[1]}" in
${groups.map((first) => `      ${first}) COMPREPLY=($(compgen -W "${secondWords(first, commands).join(' ')}" -- "$current")); return ;;`).join('\n')}
    esac
  fi
  case "\${COMP_WORDS[1]} \${COMP_WORDS[2]}" in
${flags.join('\n')}
  esac
  if [[ "$current" == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$current"))
  else COMPREPLY=($(compgen -f -- "$current")); fi
}
complete -o default -F _parley parley
`;
}

/** A command of one word matches with any second word. */
function bashPattern(command: Command): string {
  const [first, second] = wordsOf(command);
  return second === undefined ? `"${first} "*` : `"${first} ${second}"`;
}

/** Text for a shell in single quotes: only a single quote has a meaning there, because it ends the text. */
const quoted = (text: string): string => text.replaceAll("'", "'\\''");

export function zshScript(commands: readonly Command[]): string {
  const top = firstWords(commands).map((first) => `    '${first}:${quoted(summaryOf(first, commands))}'`);
  const cases = commands.map((command) => {
    const [first, second] = wordsOf(command);
    const flags = command.flags.map(({ name, value, description }) => {
      const text = quoted(description).replace(/[[\]:]/g, ' ');
      return `'--${name}[${text}]${value === undefined ? '' : `:${value}:${value === 'FILE' ? '_files' : ''}`}'`;
    });
    return `    '${first}${second === undefined ? '' : ` ${second}`}') _arguments ${flags.join(' ')} '*: :_files' ;;`;
  });
  const groups = firstWords(commands).filter((first) => secondWords(first, commands).length > 0);
  return `#compdef parley
_parley() {
  local -a top
  top=(
${top.join('\n')}
  )
  if (( CURRENT == 2 )); then _describe command top; return; fi
  local name="\${words[2]}"
  case "$name" in
${groups.map((first) => `    ${first}) if (( CURRENT == 3 )); then compadd ${secondWords(first, commands).join(' ')}; return; fi; name="$name \${words[3]}" ;;`).join('\n')}
  esac
  case "$name" in
${cases.join('\n')}
  esac
}
if [ "$funcstack[1]" = "_parley" ]; then _parley "$@"; else compdef _parley parley; fi
`;
}

function summaryOf(first: string, commands: readonly Command[]): string {
  const own = commands.find(({ name }) => name === first);
  return (own?.summary ?? secondWords(first, commands).join(', ')).replaceAll(':', ' ');
}

export function fishScript(commands: readonly Command[]): string {
  const lines = ['# fish completion for parley', 'complete -c parley -f'];
  for (const first of firstWords(commands)) {
    lines.push(`complete -c parley -n __fish_use_subcommand -a ${first} -d '${fish(summaryOf(first, commands))}'`);
    const below = secondWords(first, commands);
    if (below.length > 0)
      lines.push(
        `complete -c parley -n '__fish_seen_subcommand_from ${first}; and not __fish_seen_subcommand_from ${below.join(' ')}' -a '${below.join(' ')}'`,
      );
  }
  for (const command of commands) {
    const [first, second] = wordsOf(command);
    const seen = `__fish_seen_subcommand_from ${first}${second === undefined ? '' : `; and __fish_seen_subcommand_from ${second}`}`;
    for (const { name, short, value, description } of command.flags)
      lines.push(
        `complete -c parley -n '${seen}' -l ${name}${short === undefined ? '' : ` -s ${short}`}${value === undefined ? '' : value === 'FILE' ? ' -r -F' : ' -x'} -d '${fish(description)}'`,
      );
  }
  return `${lines.join('\n')}\n`;
}

const fish = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll("'", "\\'");
