/**
 * The variables that a child inherits from the gateway: those needed to find programs, the home directory and the
 * language, and none that may hold a secret (reliability S1). Proxy variables are excluded, because they often contain
 * credentials; a server that needs one sets it in its own `env`.
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

/** The variable that marks a child and its descendants, so that the guard recognises processes it has to end. */
export const TAG = 'PARLEY_CHILD';

export function childEnvironment(own: Readonly<Record<string, string>> = {}, tag?: string): Record<string, string> {
  const env: Record<string, string> = {};
  for (const name of INHERITED) {
    const value = process.env[name];
    if (value !== undefined) env[name] = value;
  }
  for (const [name, value] of Object.entries(own)) {
    // Names are case-insensitive on Windows: `Path` must replace PATH.
    const key = process.platform === 'win32' ? name.toUpperCase() : name;
    env[key] = value;
  }
  if (tag !== undefined) env[TAG] = tag;
  return env;
}
