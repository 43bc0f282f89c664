import { describe, expect, it } from 'vitest';
import { cleanLines, diagnose } from './crash-diagnosis.js';

const of = (stderr: string, args: string[] = [], stdout: string[] = []) => diagnose({ stderr, stdout, args });

describe('launchers', () => {
  it('npm: a package that does not exist', () => {
    const stderr = `npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/no-such-server - Not found
npm error 404
npm error 404  'no-such-server@*' is not in this registry.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git folder.
npm error A complete log of this run can be found in: /root/.npm/_logs/x-debug-0.log
`;
    expect(of(stderr)).toEqual({
      lines: [
        'npm error 404 Not Found - GET https://registry.npmjs.org/no-such-server - Not found',
        "npm error 404  'no-such-server@*' is not in this registry.",
      ],
      cause: 'npm does not know the package',
      advice: 'npm has no package "no-such-server": correct the name in "args"',
      unrunnable: true,
    });
  });

  it('npm: scoped packages and the messages of older versions', () => {
    const stderr = `npm ERR! code E404
npm ERR! 404 Not Found - GET https://registry.npmjs.org/@x%2fy - Not found
npm ERR! 404
npm ERR! 404  '@x/y@1.2.3' is not in this registry.`;
    expect(of(stderr).advice).toBe('npm has no package "@x/y": correct the name in "args"');
  });

  it('npm: the messages of a newer version', () => {
    const stderr = `npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/no-such-server
npm error 404
npm error 404  The requested resource 'no-such-server@*' could not be found or you do not have permission to access it.
npm error 404`;
    expect(of(stderr)).toMatchObject({
      lines: [
        'npm error 404 Not Found - GET https://registry.npmjs.org/no-such-server',
        "npm error 404  The requested resource 'no-such-server@*' could not be found or you do not have permission to access it.",
      ],
      advice: 'npm has no package "no-such-server": correct the name in "args"',
    });
  });

  it('npm: no program, no network, anything else', () => {
    expect(of('npm error could not determine executable to run\nnpm error A complete log of this run')).toMatchObject({
      lines: ['npm error could not determine executable to run'],
      cause: 'the npm package has no program to run',
    });
    const offline = `npm error code EAI_AGAIN
npm error syscall getaddrinfo
npm error errno EAI_AGAIN
npm error request to https://registry.npmjs.org/x failed, reason: getaddrinfo EAI_AGAIN registry.npmjs.org`;
    expect(of(offline)).toMatchObject({ cause: 'npm could not reach its registry' });
    expect(of('npm error code EACCES\nnpm error Your cache folder contains root-owned files')).toMatchObject({
      lines: ['npm error Your cache folder contains root-owned files'],
      cause: 'npm failed',
      unrunnable: false,
    });
  });

  it('uv and pip: a package that cannot be resolved, a program that a package does not have', () => {
    const uv = `  × No solution found when resolving tool dependencies:
  ╰─▶ Because no-such-server was not found in the package registry and you
      require no-such-server, we can conclude that your requirements are
      unsatisfiable.`;
    expect(of(uv)).toMatchObject({
      lines: [
        'No solution found when resolving tool dependencies: Because no-such-server was not found in the package registry and you require no-such-server, we can conclude that your requirements are unsatisfiable.',
      ],
      cause: 'a Python package was not found',
    });
    expect(
      of('An executable named `x` is not provided by package `y`.\nThe following executables are available:'),
    ).toMatchObject({
      cause: 'the Python package has no such program',
      advice: 'write "args" as --from PACKAGE PROGRAM',
    });
    const pip = `ERROR: Could not find a version that satisfies the requirement nosuch (from versions: none)
ERROR: No matching distribution found for nosuch
WARNING: You are using pip version 21`;
    expect(of(pip).lines).toEqual(['ERROR: No matching distribution found for nosuch']);
  });

  it('shells and Docker', () => {
    for (const line of [
      'sh: 1: tsx: not found',
      'bash: line 1: deno: command not found',
      "/usr/bin/env: 'node': No such file or directory",
    ])
      expect(of(`${line}\n`)).toMatchObject({ lines: [line], cause: 'a program it starts was not found' });
    expect(
      of('Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?'),
    ).toMatchObject({
      cause: 'Docker could not run the container',
      advice: 'start Docker and give this user access to it',
    });
  });
});

describe('Node.js', () => {
  const stack = (error: string) => `node:internal/modules/cjs/loader:1210
  throw err;
  ^

${error}
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
    at Module._load (node:internal/modules/cjs/loader:1038:27) {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.20.2
`;
  it('a missing script, a package that is not installed, a file that was not built', () => {
    const script = "Error: Cannot find module '/srv/files/server.mjs'";
    expect(of(stack(script), ['server.mjs'])).toEqual({
      lines: [script],
      cause: 'a file named in its arguments is missing',
      advice: 'correct the path in "args", or set "cwd" to the folder it is relative to',
      unrunnable: true,
    });
    const module = "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /srv/files/server.mjs";
    expect(of(stack(module), ['/srv/files/server.mjs'])).toMatchObject({
      lines: [module],
      advice: 'run "npm install zod" in the folder of the server',
    });
    expect(of(stack("Error: Cannot find module './dist/index.js'"), ['/srv/files/server.mjs']).advice).toBe(
      'install or build the server again: one of its files is missing',
    );
  });

  it('an exception: its first line, and its cause', () => {
    const stderr = `file:///srv/server.mjs:3
throw new Error('no database', { cause: new Error('refused') });
      ^

Error: no database
    at file:///srv/server.mjs:3:7
    at ModuleJob.run (node:internal/modules/esm/module_job:263:25) {
  [cause]: Error: refused
      at file:///srv/server.mjs:3:41
}

Node.js v22.1.0`;
    expect(of(stderr)).toEqual({
      lines: ['Error: no database', '[cause]: Error: refused'],
      cause: 'an error in the program ended it',
      advice: undefined,
      unrunnable: false,
    });
  });

  it('a syntax error with its location', () => {
    const stderr = `/srv/server.js:7
const = 3;
      ^

SyntaxError: Unexpected token '='
    at wrapSafe (node:internal/modules/cjs/loader:1383:18)

Node.js v20.20.2`;
    expect(of(stderr).lines).toEqual(['/srv/server.js:7', "SyntaxError: Unexpected token '='"]);
  });

  it('a missing variable', () => {
    const stderr = `Error: BRAVE_API_KEY environment variable is required
    at file:///srv/server.mjs:3:7

Node.js v20.20.2`;
    expect(of(stderr)).toMatchObject({
      lines: ['Error: BRAVE_API_KEY environment variable is required'],
      cause: 'a setting it needs is missing',
      advice: 'set it in "env" of this server, because the environment of the gateway is not passed on',
    });
  });

  it('does not take an error code for a variable', () => {
    const stderr = `TypeError [ERR_INVALID_ARG_TYPE]: The "path" argument must be of type string. Received undefined
    at x (y:1:1)`;
    expect(of(stderr).cause).toBe('an error in the program ended it');
  });
});

describe('other languages', () => {
  it('Python: the last exception, the innermost of a group, a module, a script', () => {
    const traceback = (end: string) => `Traceback (most recent call last):
  File "/srv/server.py", line 3, in <module>
    main()
  File "/srv/server.py", line 9, in main
    raise ValueError("no database")
${end}
`;
    expect(of(traceback('ValueError: no database'))).toMatchObject({
      lines: ['ValueError: no database'],
      cause: 'a Python exception ended it',
    });
    expect(of(traceback("ModuleNotFoundError: No module named 'mcp'"))).toMatchObject({
      cause: 'a Python module is missing',
      unrunnable: true,
    });
    expect(of(traceback("ImportError: cannot import name 'x' from 'y' (/srv/y.py)")).cause).toBe(
      'the versions of its Python packages are incompatible',
    );
    const long = `pydantic_core._pydantic_core.ValidationError: 2 validation errors for ClientRequest
PingRequest.method
  Input should be 'ping' [type=literal_error, input_value='server/discover', input_type=str]
    For further information visit https://errors.pydantic.dev/2.10/v/literal_error
ListToolsRequest.method
  Input should be 'tools/list'`;
    expect(of(traceback(long)).lines).toEqual([
      'pydantic_core._pydantic_core.ValidationError: 2 validation errors for ClientRequest',
    ]);
    expect(of(traceback('requests.exceptions.Timeout: too late')).lines).toEqual([
      'requests.exceptions.Timeout: too late',
    ]);
    expect(of(traceback('KeyboardInterrupt')).lines).toEqual(['KeyboardInterrupt']);
    const group = `  + Exception Group Traceback (most recent call last):
  |   File "/srv/server.py", line 3, in <module>
  |     anyio.run(main)
  | BaseExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/x.py", line 5, in run
    |     raise RuntimeError("refused")
    | RuntimeError: refused
    +------------------------------------`;
    expect(of(group).lines).toEqual(['RuntimeError: refused']);
    expect(of("python3: can't open file '/srv/nope.py': [Errno 2] No such file or directory\n").cause).toBe(
      'a file named in its arguments is missing',
    );
    expect(of('/usr/bin/python3: No module named mcp_server_git').cause).toBe('a Python module is missing');
  });

  it('Java, Go, Rust, .NET', () => {
    const java = `Exception in thread "main" java.lang.RuntimeException: cannot start
\tat com.example.Main.main(Main.java:5)
Caused by: java.io.IOException: no such file
\tat com.example.Config.read(Config.java:9)
\t... 1 more`;
    expect(of(java).lines).toEqual([
      'Exception in thread "main" java.lang.RuntimeException: cannot start',
      'Caused by: java.io.IOException: no such file',
    ]);
    expect(of('panic: runtime error: index out of range [3]\n\ngoroutine 1 [running]:\nmain.main()')).toMatchObject({
      lines: ['panic: runtime error: index out of range [3]'],
      cause: 'the program crashed',
    });
    expect(
      of(
        "thread 'main' (4711) panicked at src/main.rs:3:5:\ncalled `Option::unwrap()` on a `None` value\nnote: run with `RUST_BACKTRACE=1`",
      ).lines,
    ).toEqual(["thread 'main' (4711) panicked at src/main.rs:3:5:", 'called `Option::unwrap()` on a `None` value']);
    expect(
      of('Unhandled exception. System.IO.FileNotFoundException: Could not find file\n   at Program.Main()').lines,
    ).toEqual(['Unhandled exception. System.IO.FileNotFoundException: Could not find file']);
  });
});

describe('everything else', () => {
  it('the last lines without noise', () => {
    const stderr = `(node:4711) ExperimentalWarning: SQLite is an experimental feature
(Use \`node --trace-warnings ...\` to show where the warning was created)
one
two
three
Usage: server --root FOLDER

WARN deprecated
`;
    expect(of(stderr)).toEqual({
      lines: ['two', 'three', 'Usage: server --root FOLDER'],
      cause: undefined,
      advice: undefined,
      unrunnable: false,
    });
  });

  it('noise if there are no other lines, stdout if stderr is empty, no lines without output', () => {
    expect(of('Node.js v20.20.2\n').lines).toEqual(['Node.js v20.20.2']);
    expect(of('\n \n', [], ['Usage: server']).lines).toEqual(['Usage: server']);
    expect(of('').lines).toEqual([]);
  });

  it('removes colours and overwritten text, and cuts long lines', () => {
    expect(cleanLines('\u001b[31mred\u001b[0m\n10%\r50%\r100%\r\nnext\r\n')).toEqual(['red', '100%', 'next', '']);
    const [line] = of('x'.repeat(5000)).lines;
    expect(line).toHaveLength(300);
  });

  it('reads 64 kB of hostile text quickly', () => {
    for (const text of [
      'a-',
      'key',
      '?',
      'npm error ',
      "Error: Cannot find module '",
      'E_X set ',
      '\n',
      'Error: x\n',
      '://',
    ])
      for (const args of [[], ['a'.repeat(1000)]]) {
        const began = performance.now();
        of(text.repeat(65_536 / text.length), args);
        expect(performance.now() - began).toBeLessThan(1000);
      }
  });
});
