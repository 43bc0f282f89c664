/** A program with its arguments, environment and working directory. */
export interface StdioCommand {
  command: string;
  args?: readonly string[] | undefined;
  env?: Readonly<Record<string, string>> | undefined;
  cwd?: string | undefined;
}
