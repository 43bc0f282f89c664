/**
 * Finds in the output of an ended program: the relevant lines, the cause, and advice for the operator. Pure functions
 * on text.
 */
import { stripVTControlCharacters } from 'node:util';

export interface Output {
  /** The last part of stderr. */
  readonly stderr: string;
  /** Lines on stdout that are not messages: programs that log to stdout have no other output. */
  readonly stdout: readonly string[];
  readonly args: readonly string[];
}

export interface Diagnosis {
  /** The relevant lines, oldest first. Empty if the program wrote nothing. */
  readonly lines: readonly string[];
  /** The cause in fixed words without quotes of the output. Undefined if no cause is recognised. */
  readonly cause: string | undefined;
  /** Advice for the operator. */
  readonly advice: string | undefined;
  /** Whether the program could not run at all, independent of the messages it got. */
  readonly unrunnable: boolean;
}

interface Recognised {
  readonly lines: readonly string[];
  readonly cause?: string;
  readonly advice?: string;
  readonly unrunnable?: true;
}

/** Recognises one kind of failure. `lines` is not empty and has no control characters. */
type Recogniser = (lines: readonly string[], args: readonly string[]) => Recognised | undefined;

const MAX_LINES = 3;
const MAX_LENGTH = 300;
/** Limits on the examined output: the number of last lines, and the length of each. */
const MAX_READ = 200;
const MAX_WIDTH = 1000;

export function diagnose({ stderr, stdout, args }: Output): Diagnosis {
  const written = cleanLines(stderr).filter((line) => line !== '');
  const present = (written.length > 0 ? written : stdout.flatMap(cleanLines)).slice(-MAX_READ);
  if (present.length === 0) return { lines: [], cause: undefined, advice: undefined, unrunnable: false };
  let found: Recognised | undefined;
  for (const recognise of RECOGNISERS) {
    found = recognise(present, args);
    if (found) break;
  }
  found ??= { lines: present.filter((line) => !isNoise(line)).slice(-MAX_LINES) };
  const shown = (found.lines.length > 0 ? found.lines : present.slice(-MAX_LINES)).slice(0, MAX_LINES);
  const variable = found.advice === undefined && shown.some(lacksVariable);
  return {
    lines: shown.map((line) => shorten(line.trim())),
    cause: found.cause ?? (variable ? 'a setting it needs is missing' : undefined),
    advice: found.advice ?? (variable ? SET_VARIABLE : undefined),
    unrunnable: found.unrunnable === true,
  };
}

/** Removes colours and overwritten text: keeps each line as a terminal shows it in the end. */
export function cleanLines(text: string): string[] {
  return stripVTControlCharacters(text)
    .split('\n')
    .map((line) =>
      line
        .slice(line.trimEnd().lastIndexOf('\r') + 1)
        .trimEnd()
        .slice(0, MAX_WIDTH),
    );
}

function shorten(line: string): string {
  return line.length > MAX_LENGTH ? `${line.slice(0, MAX_LENGTH - 1)}…` : line;
}

const NOISE: readonly RegExp[] = [
  /^Node\.js v\d/,
  /^\s*[\^~]+\s*$/,
  /^\s+at /,
  /^\s*\}$/,
  /^(node|file|internal):\S*:\d+$/,
  /^\(node:\d+\) /,
  /^\(Use `node --/,
  /\b(Deprecation|Experimental)Warning\b/,
  /^\s*(WARN|WARNING|npm warn|npm WARN|npm notice)\b/i,
  /A complete log of this run can be found in/,
  /^note: run with `RUST_BACKTRACE/,
  /^Traceback \(most recent call last\):$/,
  /^\s+File ".*", line \d+/,
];
const isNoise = (line: string): boolean => NOISE.some((noise) => noise.test(line));

const VARIABLE =
  /\b(?!ERR_)[A-Z][A-Z0-9]*_[A-Z0-9_]+\b|\b(?:api|access|auth|bearer)[ _-]?(?:key|token)\b|[Ee]nv(?:ironment)?[ -]?var/;
const LACKING = /\b(required|missing|must|not set|not found|not provided|undefined|unset|provide|set)\b/i;
const NAMED = /\b[A-Z][A-Z0-9_]{2,} (?:is |was |must be )?(?:not set|required|missing|unset|set)\b/;
const lacksVariable = (line: string): boolean => NAMED.test(line) || (VARIABLE.test(line) && LACKING.test(line));
const SET_VARIABLE = 'set it in "env" of this server, because the environment of the gateway is not passed on';

/** The order matters: launchers come before the languages they are written in. */
const RECOGNISERS: readonly Recogniser[] = [
  npm,
  python,
  uv,
  shell,
  docker,
  node,
  java,
  rust,
  first(/^(panic|fatal error): /, 'the program crashed'),
  first(/^Unhandled exception\. /, 'the program crashed'),
];

function first(pattern: RegExp, cause: string): Recogniser {
  return (lines) => {
    const line = lines.find((candidate) => pattern.test(candidate));
    return line === undefined ? undefined : { lines: [line], cause };
  };
}

const NPM = /^npm (error|ERR!) ?/;
const OFFLINE = /\b(ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ECONNRESET|ENETUNREACH|ERR_SOCKET_TIMEOUT)\b/;

function npm(lines: readonly string[], args: readonly string[]): Recognised | undefined {
  const errors = lines.filter((line) => NPM.test(line));
  if (errors.length === 0) return undefined;
  const said = errors.map((line) => line.replace(NPM, ''));
  const code = said.map((line) => /^code (\w+)/.exec(line)?.[1]).find((found) => found !== undefined);
  const reason = said.filter(
    (line) => /\S/.test(line) && !/^(code|errno|syscall|path|dest) |^A complete log|^404$/.test(line),
  );
  if (code === 'E404') {
    const missing = /'([^'\s]+?)(?:@[^@'\s]*)?' (?:is not in|could not be found)/.exec(said.join('\n'))?.[1];
    return {
      lines: errors.filter((line) => /404 +(Not Found|'|The requested resource)/.test(line)),
      cause: 'npm does not know the package',
      advice: `npm has no package ${missing === undefined ? 'of that name' : `"${missing}"`}: correct the name in "args"`,
      unrunnable: true,
    };
  }
  if (said.some((line) => line.includes('could not determine executable to run'))) {
    return {
      lines: errors.filter((line) => line.includes('could not determine executable')),
      cause: 'the npm package has no program to run',
      advice: `the package has no program that npx can choose: write "args" as -y -p PACKAGE PROGRAM`,
      unrunnable: true,
    };
  }
  if (OFFLINE.test(said.join('\n'))) {
    return {
      lines: errors.filter((line) => OFFLINE.test(line)),
      cause: 'npm could not reach its registry',
      advice:
        'check the network; a proxy has to be set in "env", because the environment of the gateway is not passed on',
      unrunnable: true,
    };
  }
  // The program's own output often follows the errors of npm.
  const own = node(
    lines.filter((line) => !NPM.test(line)),
    args,
  );
  return own ?? { lines: reason.slice(0, MAX_LINES).map((line) => `npm error ${line}`), cause: 'npm failed' };
}

function python(lines: readonly string[], args: readonly string[]): Recognised | undefined {
  const script = lines.find((line) => /^\S*python[\d.]*(\.exe)?: can't open file /.test(line));
  if (script !== undefined) return { ...MISSING_SCRIPT, lines: [script] };
  const module = lines.find((line) => /^\S*python[\d.]*(\.exe)?: No module named /.test(line));
  if (module !== undefined) return { ...MISSING_PYTHON, lines: [module] };
  if (!lines.some((line) => /Traceback \(most recent call last\):$/.test(line))) return undefined;
  // Python prints exception groups as a tree. The innermost exception is the cause and comes last.
  const plain = lines.map((line) => line.replace(/^[\s|+-]+/, ''));
  const raised = plain.filter((line) => PYTHON_ERROR.test(line) && !/\b(?:Base)?ExceptionGroup\b/.test(line));
  // Some messages have several lines, and not every exception name ends in Error or Exception.
  const exception = raised.at(-1) ?? plain.findLast((line) => /^[A-Za-z_][\w.]*: /.test(line));
  if (exception === undefined) return undefined;
  if (/^ImportError: cannot import name/.test(exception)) return { ...UNFIT_PYTHON, lines: [exception] };
  if (/^(ModuleNotFoundError|ImportError): /.test(exception)) return { ...MISSING_PYTHON, lines: [exception] };
  if (/^FileNotFoundError: /.test(exception) && args.some((arg) => arg !== '' && exception.includes(`'${arg}'`)))
    return { ...MISSING_SCRIPT, lines: [exception] };
  return { lines: [exception], ...(!lacksVariable(exception) && { cause: 'a Python exception ended it' }) };
}

const PYTHON_ERROR = /^(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Interrupt|Exit)(?:: |$)/;

const MISSING_SCRIPT = {
  cause: 'a file named in its arguments is missing',
  advice: 'correct the path in "args", or set "cwd" to the folder it is relative to',
  unrunnable: true,
} as const;
const MISSING_PYTHON = {
  cause: 'a Python module is missing',
  advice: 'install the module for the Python that this command runs, or start the server with uvx or uv run',
  unrunnable: true,
} as const;
const UNFIT_PYTHON = {
  cause: 'the versions of its Python packages are incompatible',
  advice: 'install the versions that the server requires, or start it with uvx or uv run',
  unrunnable: true,
} as const;

function uv(lines: readonly string[]): Recognised | undefined {
  const at = lines.findIndex((line) => /No solution found when resolving/.test(line));
  if (at >= 0) {
    // uv wraps its sentences at the width of the terminal.
    const told = lines.slice(at, at + 8).map((line) => line.replace(/^[\s×╰─▶│]+/, ''));
    return { ...UNRESOLVED, lines: [told.join(' ')] };
  }
  const program = lines.find((line) => /^An executable named .* is not provided by package/.test(line));
  if (program !== undefined) {
    const advice = 'write "args" as --from PACKAGE PROGRAM';
    return { lines: [program], cause: 'the Python package has no such program', advice, unrunnable: true };
  }
  const pip = lines.filter((line) => /^ERROR: (No matching distribution|Could not find a version)/.test(line));
  if (pip.length > 0) return { ...UNRESOLVED, lines: pip.slice(-1) };
  const fetch = lines.find((line) => /^error: Failed to (fetch|download|resolve)|^error: Request failed/.test(line));
  return fetch === undefined
    ? undefined
    : { lines: [fetch], cause: 'a Python package could not be fetched', advice: NETWORK, unrunnable: true };
}

const UNRESOLVED = {
  cause: 'a Python package was not found',
  advice: 'correct the package in "args": it has the name that the package index lists',
  unrunnable: true,
} as const;
const NETWORK =
  'check the network; a proxy has to be set in "env", because the environment of the gateway is not passed on';

function shell(lines: readonly string[]): Recognised | undefined {
  const line = lines.findLast(
    (candidate) =>
      /: (command )?not found$/.test(candidate) ||
      /^(\S*\/)?env: .*: No such file or directory$/.test(candidate) ||
      /is not recognized as an internal or external command/.test(candidate),
  );
  return line === undefined
    ? undefined
    : {
        lines: [line],
        cause: 'a program it starts was not found',
        advice: 'install that program, or set PATH in "env" of this server',
        unrunnable: true,
      };
}

function docker(lines: readonly string[]): Recognised | undefined {
  const line = lines.find((candidate) =>
    /Cannot connect to the Docker daemon|docker daemon socket|^docker: |Error response from daemon:/i.test(candidate),
  );
  if (line === undefined) return undefined;
  const away = /Cannot connect to the Docker daemon|docker daemon socket/i.test(line);
  return {
    lines: [line],
    cause: 'Docker could not run the container',
    advice: away ? 'start Docker and give this user access to it' : 'correct the image and the options in "args"',
    unrunnable: true,
  };
}

const NODE_ERROR = /^(?:Uncaught )?(?:[A-Z]\w*)?(?:Error|Exception)(?: \[\w+\])?: \S/;

function node(lines: readonly string[], args: readonly string[]): Recognised | undefined {
  const missing = lines.find((line) => NODE_ERROR.test(line) && /Cannot find (module|package) '/.test(line));
  if (missing !== undefined) return missingModule(missing, args);
  const at = lines.findLastIndex(
    (line, index) => NODE_ERROR.test(line) && lines.slice(index + 1).some((next) => /^\s+at /.test(next)),
  );
  const thrown = at >= 0 ? lines[at]! : lines.findLast((line) => /^(Syntax|Type|Reference|Range)Error: /.test(line));
  if (thrown === undefined) return undefined;
  const cause = lines.findLast((line) => /^\s*\[cause\]: /.test(line));
  const where = thrown.startsWith('SyntaxError')
    ? lines.find((line) => /^(file:\/\/)?\S+\.\w+:\d+$/.test(line))
    : undefined;
  return {
    lines: [...(where === undefined ? [] : [where]), thrown, ...(cause === undefined ? [] : [cause])],
    ...(!lacksVariable(thrown) && { cause: 'an error in the program ended it' }),
  };
}

function missingModule(line: string, args: readonly string[]): Recognised {
  const name = /Cannot find (?:module|package) '([^']+)'/.exec(line)?.[1] ?? '';
  const cause = 'a Node.js module is missing';
  if (
    args.some(
      (arg) => arg !== '' && !arg.startsWith('-') && (name === arg || name.endsWith(`/${arg.replace(/^\.\//, '')}`)),
    )
  )
    return { ...MISSING_SCRIPT, lines: [line] };
  const advice = /^[./\\]|^[A-Za-z]:|^file:/.test(name)
    ? 'install or build the server again: one of its files is missing'
    : `run "npm install ${name}" in the folder of the server`;
  return { lines: [line], cause, advice, unrunnable: true };
}

function java(lines: readonly string[]): Recognised | undefined {
  const launcher = lines.find((line) =>
    /^Error: (Unable to access jarfile|Could not find or load main class)/.test(line),
  );
  if (launcher !== undefined) return { ...MISSING_SCRIPT, lines: [launcher] };
  const thrown = lines.find((line) => /^Exception in thread "/.test(line));
  if (thrown === undefined) return undefined;
  const cause = lines.findLast((line) => /^Caused by: /.test(line));
  return { lines: cause === undefined ? [thrown] : [thrown, cause], cause: 'a Java exception ended it' };
}

function rust(lines: readonly string[]): Recognised | undefined {
  const at = lines.findIndex((line) => /^thread '.*'.* panicked at /.test(line));
  if (at < 0) return undefined;
  const message = lines[at]!.endsWith(':') ? lines[at + 1] : undefined;
  return { lines: [lines[at]!, ...(message === undefined ? [] : [message])], cause: 'the program crashed' };
}
