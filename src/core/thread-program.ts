/** The file of a worker thread, and the arguments of Node for the thread. */
export interface ThreadProgram {
  readonly file: URL;
  readonly execArgv: string[];
}

/**
 * The program of a thread in the folder of the module whose URL is `beside`. If that module runs from source, as in a
 * test or a benchmark, the thread also runs from source, with the loader of the tests. A compiled program could be
 * outdated.
 */
export function threadProgram(name: string, beside: string): ThreadProgram {
  // The flags of the parent are not passed on: some of them (--input-type, --inspect) make a worker fail.
  const execArgv = ['--disable-warning=ExperimentalWarning'];
  if (!beside.endsWith('.ts')) return { file: new URL(`./${name}.js`, beside), execArgv };
  const loader = new URL('../../test/support/ts-worker.mjs', import.meta.url).href;
  return { file: new URL(`./${name}.ts`, beside), execArgv: [...execArgv, '--import', loader] };
}
