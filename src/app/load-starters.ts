/**
 * Loads the gateway in steps, when a command needs it. Node opens all files of an import at the same time, and the
 * number of these files may exceed the limit on open files.
 */
export async function loadStarters(): Promise<
  typeof import('./serve.js') &
    typeof import('./stdio.js') &
    typeof import('./commands/search.js') &
    typeof import('./commands/lint.js')
> {
  await import('../protocol/a2a/index.js');
  await import('../state/index.js');
  await import('../outbound/mcp/build-upstream.js');
  await import('../core/mcp-dispatcher.js');
  await import('./mcp-runtime.js');
  await import('./a2a-runtime.js');
  await import('./mcp-endpoints.js');
  return {
    ...(await import('./serve.js')),
    ...(await import('./stdio.js')),
    ...(await import('./commands/search.js')),
    ...(await import('./commands/lint.js')),
  };
}
