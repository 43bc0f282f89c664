/** The keys of `plugins`. Plugins are loaded from the configuration only. */
import path from 'node:path';
import { compilePattern } from '../identity/policy/linear-regex.js';
import { HOOKS } from '../plugins/api.js';
import { httpUrl, isLoopback } from './address-fields.js';
import {
  duration,
  type FieldOptions,
  flag,
  group,
  integer,
  list,
  map,
  oneOf,
  Refusal,
  scalarField,
  secret,
  size,
  text,
} from './field.js';
import { type ProblemCode, show } from './problem.js';
import type { Reading } from './validate.js';

/** Plugins that come with the gateway. */
export const SHIPPED = ['redaction', 'size-governor', 'result-cache', 'descriptions'] as const;
export type ShippedPlugin = (typeof SHIPPED)[number];

export const isShipped = (use: string): use is ShippedPlugin => (SHIPPED as readonly string[]).includes(use);

/** The name of a shipped plugin, the absolute path of a module, or the name of a package. */
const moduleName = <const O extends FieldOptions>(options: O) =>
  scalarField<string, O>(
    {
      type: 'name or path',
      read(value, context) {
        const written = String(value).trim();
        if (isShipped(written)) return written;
        if (/^\.{0,2}[/\\]/.test(written) || /\.[cm]?[jt]s$/.test(written))
          return path.resolve(context.directory, written);
        if (/^(@[\w.-]+\/)?[\w.-]+(\/[\w./-]+)?$/.test(written)) return written;
        return new Refusal(
          'is neither a plugin nor a module',
          `write one of ${SHIPPED.join(', ')}, a path such as ./x.mjs, or a package`,
        );
      },
    },
    options,
  );

const pattern = (description: string, fix: string) => text({ description, pattern: /\S/, what: 'is empty', fix });

const redaction = group('Options of the plugin `redaction`.', {
  kinds: list(
    oneOf(['secrets', 'email', 'phone', 'creditCard', 'iban', 'ssn'], {
      required: true,
      description: 'One kind of data.',
    }),
    {
      description: 'The kinds of data that are replaced.',
      default: ['secrets', 'email', 'phone', 'creditCard', 'iban', 'ssn'],
    },
  ),
  patterns: list(pattern('One pattern.', 'write a regular expression in the syntax of RE2'), {
    description: 'Further patterns in the syntax of RE2, whose matches are replaced.',
  }),
});

const governor = group('Options of the plugin `size-governor`.', {
  limit: size({ default: '64KiB', description: 'Results of tools up to this size pass unchanged.' }),
  preview: integer({
    default: 2_000,
    min: 0,
    max: 1_000_000,
    description: 'Characters of text that stay in the result.',
  }),
  ttl: duration({ default: '15m', description: 'How long the link to the whole result can be read.' }),
  perCaller: size({
    default: '16MiB',
    description: 'Maximum size of all kept results of a caller; older ones are dropped.',
  }),
  inAll: size({ default: '256MiB', description: 'Maximum size of all kept results of a replica.' }),
});

const cache = group('Options of the plugin `result-cache`.', {
  ttl: duration({ default: '1m', description: 'How long a stored result is used.' }),
  shared: flag({
    default: false,
    description:
      'Whether all callers of a tenant share results, instead of results for each caller; only for servers that give every caller the same answer.',
  }),
  perCaller: size({ default: '4MiB', description: 'Maximum size of all stored results of a caller.' }),
  inAll: size({ default: '64MiB', description: 'Maximum size of all results of a replica.' }),
});

const description = group('One rule of the plugin `descriptions`; the first that matches a tool applies.', {
  tool: text({
    required: true,
    description: 'The tool, by its own name or as `server__tool`; `*` matches any characters.',
    pattern: /\S/,
    what: 'is empty',
    fix: 'write the name of a tool, or a pattern such as files__*',
  }),
  title: text({ description: 'Replaces the title.' }),
  description: text({ description: 'Replaces the description.' }),
  before: text({ description: 'Text before the description.' }),
  after: text({ description: 'Text after the description.' }),
});

export const plugins = list(
  group('One plugin: a shipped plugin or a module (`use`), or a plugin that runs elsewhere (`url`).', {
    name: text({
      description: 'The name of the plugin in the log, in errors and in metrics.',
      preset: 'from `use`, or the host of `url`',
      pattern: /^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/,
      what: 'is not a name for a plugin',
      fix: 'write up to 40 letters, digits, dots, dashes and underscores, starting with a letter or digit',
    }),
    use: moduleName({
      description: `A shipped plugin (${SHIPPED.map((name) => `\`${name}\``).join(', ')}), the path of a JavaScript module, or the name of a package; its default export is the plugin.`,
    }),
    url: httpUrl({ description: 'The address that gets the hooks as signed POST requests.' }),
    secret: secret({
      description: 'Signs the requests to `url`.',
      pattern: /^[\x21-\x7e]{32,}$/,
      what: 'is not a secret',
      fix: 'write at least 32 visible characters, such as the output of: openssl rand -base64 32',
    }),
    body: oneOf(['none', 'params', 'full'], {
      default: 'params',
      description:
        'Content of the requests to `url` besides the names of the call: nothing, the parameters, or the parameters with results, errors and events.',
    }),
    hooks: list(oneOf(HOOKS, { required: true, description: 'One hook.' }), {
      description: 'The hooks in use. Default: all hooks that the module has; with `url` the list is required.',
    }),
    servers: list(pattern('One server or agent.', 'write the name of a server or agent'), {
      description: 'Servers and agents whose calls the plugin sees; `*` matches any characters. Default: all.',
    }),
    tools: list(pattern('One tool.', 'write the name of a tool'), {
      description:
        'Tools whose calls the plugin sees, by their own name or as `server__tool`; `*` matches any characters. Default: all, and every other call too.',
    }),
    methods: list(pattern('One method.', 'write an MCP method or an A2A operation'), {
      description:
        'MCP methods and A2A operations that the plugin sees, such as `tools/call` or `SendMessage`; `*` matches any characters. Default: all.',
    }),
    onFailure: oneOf(['closed', 'open'], {
      default: 'closed',
      description:
        'When the plugin throws, is too slow, gives an invalid answer or is disabled: `closed` refuses the call, `open` continues without the plugin.',
    }),
    timeout: duration({ default: '1s', description: 'Time limit for one run of a hook.' }),
    blockLimit: duration({
      default: '1s',
      description:
        'A module that blocks the event loop of its thread for longer is stopped and disabled until the next start.',
    }),
    memory: size({
      default: '256MiB',
      description:
        'The largest heap of the thread of a module; one that needs more is stopped and disabled until the next start.',
    }),
    options: map(text({ description: 'One option.' }), {
      keys: 'variable',
      description: 'Options for a module of your own, which gets them as text.',
    }),
    redaction,
    governor,
    cache,
    descriptions: list(description, { description: 'The rules of the plugin `descriptions`, in order.' }),
  }),
  { description: 'Plugins around every call, in order. See [plugins.md](plugins.md).' },
);

interface WrittenPlugin {
  readonly name?: string;
  readonly use?: string;
  readonly url?: string;
  readonly secret?: string;
  readonly hooks: readonly string[];
  readonly redaction: { readonly patterns: readonly string[] };
}

/** The name of a plugin: its `name`, otherwise a name that is derived from its module or address. */
export function pluginName({ name, use, url }: Pick<WrittenPlugin, 'name' | 'use' | 'url'>): string {
  if (name !== undefined) return name;
  const source = url === undefined ? path.basename(use ?? '').replace(/\.[cm]?[jt]s$/, '') : new URL(url).hostname;
  return source.replace(/[^A-Za-z0-9._-]/g, '-').slice(0, 40);
}

/** Rules about plugins that concern several keys. */
export function pluginRules(
  { plugins: written }: { readonly plugins: readonly WrittenPlugin[] },
  { problems, origins }: Reading,
): void {
  const names = new Map<string, number>();
  for (const [index, plugin] of written.entries()) {
    const key = `plugins[${index}]`;
    const error = (at: string, code: ProblemCode, message: string, fix: string): void =>
      problems.error(code, at, message, fix, origins.get(at) ?? origins.get(key));
    const { use, url, hooks } = plugin;
    if ((use === undefined) === (url === undefined))
      error(
        key,
        'required',
        'must have either use or url',
        'name a shipped plugin or module with use, or an address with url',
      );
    if (url !== undefined && hooks.length === 0)
      error(`${key}.hooks`, 'required', 'is missing', `name the hooks that ${show(url)} gets, such as [onRequest]`);
    if (url !== undefined && plugin.secret === undefined)
      error(
        `${key}.secret`,
        'required',
        'is missing',
        'write at least 32 visible characters that the receiver knows too',
      );
    if (
      url !== undefined &&
      new URL(url).protocol === 'http:' &&
      !isLoopback(new URL(url).hostname.replace(/^\[|\]$/g, ''))
    )
      problems.warn(
        'conflict',
        `${key}.url`,
        'leads to another machine without encryption',
        'use https, or an address of this machine',
        origins.get(`${key}.url`),
      );
    for (const [at, written] of plugin.redaction.patterns.entries()) {
      try {
        compilePattern(written);
      } catch {
        error(
          `${key}.redaction.patterns[${at}]`,
          'condition',
          `${show(written)} is not a pattern`,
          'use the syntax of RE2',
        );
      }
    }
    const name = pluginName(plugin);
    const before = names.get(name);
    if (before !== undefined)
      error(
        `${key}.name`,
        'duplicate',
        `${show(name)} is also the name of plugins[${before}]`,
        'give each plugin its own name',
      );
    else names.set(name, index);
  }
}
