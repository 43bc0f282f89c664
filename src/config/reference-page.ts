import type { Field, Fields } from './field.js';
import { keyVariables, oldNames, otherGatewayVariables, words } from './parley-variables.js';
import { SCHEMA } from './schema.js';

/** The text of docs/configuration.md. It is generated from the schema, so the two always agree. */
export function renderReference(): string {
  const sections = Object.entries(SCHEMA.fields).filter(([, field]) => hasParts(field));
  const plain = Object.entries(SCHEMA.fields).filter(([, field]) => !hasParts(field));
  return [
    INTRODUCTION,
    '## Keys at the top',
    table(plain.map(([name, field]) => row(name, `PARLEY_${words(name)}`, field))),
    ...sections.flatMap(([name, field]) => section(name, field)),
    '## All environment variables',
    'In addition: `PARLEY_CONFIG` names the configuration file if there is no `--config`, `PARLEY_TOKEN` is the token of ' +
      'commands that talk to a running gateway, and ' +
      `\`PARLEY_INPUT_<ID>\` is the value of an editor's \`\${input:id}\`.`,
    variables(),
    '## Variables of other gateways',
    'Parley understands these variables of LiteLLM and RouteIQ. They win over the file, and a `PARLEY_` variable wins over ' +
      'them. A variable without a key has no effect, and the log warns if it is set.',
    otherGatewayTable(),
  ]
    .join('\n\n')
    .concat('\n');
}

const INTRODUCTION = `# Configuration

<!-- Generated from src/config/schema.ts by scripts/generate-config-reference.mjs. Change it there. -->

\`parley serve --config FILE\` reads YAML or JSON; comments and trailing commas are allowed. Without \`--config\` it reads
\`parley.yaml\`, \`parley.yml\` or \`parley.json\` in the working directory. \`parley config check\` shows the configuration in
effect, with secrets masked, and every error with its key, its value and the fix.

\`\`\`yaml
listen: 127.0.0.1:4600
servers:
  weather: { url: https://weather.example.com/mcp }
  files: { command: npx, args: [-y, some-server], env: { KEY: "\${KEY}" } }
\`\`\`

**Environment.** An environment variable exists for every key and wins over the file. Its name is \`PARLEY_\` and the words of
the key, joined by underscores: \`PARLEY_TIMEOUTS_CALL_MAX=20m\`, \`PARLEY_SERVERS_WEATHER_URL=https://…\`. Commas separate
the values of a simple list. Lists, maps and whole sections may be JSON. An empty variable counts as not set.

**Values.** \`\${NAME}\` in a string is replaced by the environment variable \`NAME\`; \`\${NAME:-default}\` has a default; \`$\${\`
stands for \`\${\` itself. A variable that is not set and has no default is an error. \`\${parleyFolder}\` is the folder where
Parley is installed. A *duration* is a number with a unit (\`500ms\`, \`30s\`, \`10m\`, \`1h\`), and so is a *size* (\`512KiB\`,
\`4MiB\`). A relative *path* in a file starts at the folder of that file; in a variable or a default it starts at the working
directory. A *secret* is never shown.

**Changes.** A running gateway reads the file again when the file changes (\`reload.watch\`), at \`SIGHUP\`, and at
\`POST /api/v1/config/reload\`. It validates the whole file first: if the file has an error, nothing changes, and the log names
the error. Parley adds, changes and removes servers and agents, while the others keep running, and applies the policy and
\`log.level\`. The log names other changed keys; these take effect at the next start. \`parley config diff\` shows the changes
before they apply.

**Editors** complete the file with the JSON Schema [parley.schema.json](parley.schema.json), which \`parley config schema\` prints. In
VS Code with the YAML extension, write \`# yaml-language-server: $schema=parley.schema.json\` in the first line of the file.

**Files of other programs** work as they are: \`mcpServers\` of Claude and Cursor, \`servers\` and \`inputs\` of VS Code,
\`mcp_servers\` of LiteLLM all mean \`servers\`. Their \`type\`, \`disabled\`, \`envFile\`, \`\${env:NAME}\`, \`\${workspaceFolder}\`,
\`static_headers\`, \`auth_type\`, \`spec_path\`, \`os.environ/NAME\`, \`allowed_tools\`, \`disallowed_tools\`, \`includeTools\`, \`excludeTools\`
and \`disabledTools\` are understood; Parley ignores other keys with a warning. Characters that a server's name may not
contain become dashes; underscores stay.`;

interface Row {
  readonly key: string;
  readonly type: string;
  readonly preset: string;
  readonly variable: string;
  readonly description: string;
}

function hasParts(field: Field): boolean {
  return field.kind === 'group' || (field.kind === 'map' && field.item.kind === 'group');
}

function section(name: string, field: Field): string[] {
  const heading = `## ${name}`;
  if (field.kind === 'map' && field.item.kind === 'group') {
    const rows = rowsOf(field.item.fields, `${name}.<name>`, `PARLEY_${words(name)}_<NAME>`);
    return [heading, `${field.description} ${field.item.description}`, table(rows)];
  }
  if (field.kind !== 'group') return [];
  return [heading, field.description, table(rowsOf(field.fields, name, `PARLEY_${words(name)}`))];
}

function rowsOf(fields: Fields, key: string, variable: string): Row[] {
  return Object.entries(fields).flatMap(([name, field]) => {
    const here = `${key}.${name}`;
    const ours = `${variable}_${words(name)}`;
    if (field.kind === 'group') return rowsOf(field.fields, here, ours);
    if (field.kind === 'list' && field.item.kind === 'group') {
      return [row(here, ours, field), ...rowsOf(field.item.fields, `${here}[N]`, `${ours}_<N>`)];
    }
    return [row(here, ours, field)];
  });
}

function row(key: string, variable: string, field: Field): Row {
  return { key, type: typeOf(field), preset: presetOf(field), variable, description: field.description };
}

function typeOf(field: Field): string {
  switch (field.kind) {
    case 'scalar':
      return field.type;
    case 'list':
      return field.item.kind === 'group' ? 'list of maps' : `list of ${typeOf(field.item)}s`;
    case 'map':
      return field.item.kind === 'group' ? 'map of maps' : `map of ${typeOf(field.item)}s`;
    case 'group':
      return 'map';
  }
}

function presetOf(field: Field): string {
  if (field.kind === 'scalar') {
    if (field.required) return '*required*';
    return field.preset ?? (field.default === undefined ? '' : `\`${field.default}\``);
  }
  if (field.kind === 'list') return field.default.length === 0 ? '' : `\`[${field.default.join(', ')}]\``;
  return '';
}

function table(rows: readonly Row[]): string {
  const lines = rows.map(
    ({ key, type, preset, variable, description }) =>
      `| \`${key}\` | ${type} | ${preset} | \`${variable}\` | ${description} |`,
  );
  return ['| key | type | default | variable | meaning |', '|---|---|---|---|---|', ...lines].join('\n');
}

function variables(): string {
  const own = keyVariables(SCHEMA).map(({ variable, key }) => `| \`${variable}\` | \`${key}\` |`);
  return ['| variable | key |', '|---|---|', ...own].join('\n');
}

function otherGatewayTable(): string {
  const named = oldNames(SCHEMA).map(({ oldName, path }) => ({ name: oldName, key: path, note: '' }));
  const others = otherGatewayVariables(SCHEMA).map((variable) =>
    'key' in variable
      ? { name: variable.name, key: variable.key, note: variable.note ?? '' }
      : { name: variable.name, key: [], note: `no effect: ${variable.ignored}` },
  );
  const rows = [...named, ...others]
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, key, note }) => `| \`${name}\` | ${key.length > 0 ? `\`${key.join('.')}\`` : ''} | ${note} |`);
  return ['| variable | key | note |', '|---|---|---|', ...rows].join('\n');
}
