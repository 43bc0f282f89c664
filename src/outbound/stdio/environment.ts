/**
 * What a child sees of the gateway's environment: enough to find programs, a home and a language, and nothing that may
 * hold a secret (reliability S1). Proxy variables are left out on purpose, as they often carry credentials; a server that
 * needs one names it in its own `env`.
 */
const INHERITED =
  process.platform === 'win32'
    ? [
        'APPDATA',
        'COMSPEC',
        'HOMEDRIVE',
        'HOMEPATH',
        'LOCALAPPDATA',
        'NUMBER_OF_PROCESSORS',
        'OS',
        'PATH',
        'PATHEXT',
        'PROCESSOR_ARCHITECTURE',
        'PROGRAMDATA',
        'PROGRAMFILES',
        'PROGRAMFILES(X86)',
        'SYSTEMDRIVE',
        'SYSTEMROOT',
        'TEMP',
        'TMP',
        'USERNAME',
        'USERPROFILE',
        'WINDIR',
      ]
    : ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LC_ALL', 'LC_CTYPE', 'TERM', 'TMPDIR', 'TZ'];

/** Marks a child and all it starts, so that strays can be told from other people's processes. */
export const TAG = 'PARLEY_CHILD';

export function childEnvironment(own: Readonly<Record<string, string>> = {}, tag?: string): Record<string, string> {
  const env: Record<string, string> = {};
  for (const name of INHERITED) {
    const value = process.env[name];
    if (value !== undefined) env[name] = value;
  }
  for (const [name, value] of Object.entries(own)) {
    // Names are case-insensitive on Windows: `Path` must replace PATH, not stand beside it.
    const key = process.platform === 'win32' ? name.toUpperCase() : name;
    env[key] = value;
  }
  if (tag !== undefined) env[TAG] = tag;
  return env;
}
