import { accessSync, constants } from 'node:fs';
import { filePath, httpUrl } from './address-fields.js';
import { duration, flag, group, integer, list, map, oneOf, secret, text } from './field.js';
import { type Problems, show } from './problem.js';
import { join, type Reading } from './validate.js';

const pattern = (description: string) =>
  text({ description, pattern: /\S/, what: 'is empty', fix: 'write a name; * matches any characters' });

const evaluator = group('One evaluator: `builtin`, `module` or `url`.', {
  builtin: oneOf(['schema', 'latency'], {
    description:
      'An evaluator of the gateway: `schema` checks results against the output schemas of tools; `latency` compares the ' +
      'time of successful calls with `objective`.',
  }),
  module: filePath({
    description: 'A JavaScript module that exports a function `evaluate`; it runs in a thread of its own.',
  }),
  url: httpUrl({ description: 'A service that gets each call as JSON in a POST request and answers with a score.' }),
  token: secret({ description: 'A bearer token for `url`.' }),
  servers: list(pattern('One server or agent.'), {
    description: 'Servers and agents whose calls are evaluated; `*` matches any characters. Empty means all.',
  }),
  tools: list(pattern('One tool.'), {
    description: "Tools whose calls are evaluated, by the server's names; `*` matches any characters. Empty means all.",
  }),
  samplePercent: integer({
    default: 100,
    min: 0,
    max: 100,
    description: 'The evaluated part of the calls, in percent.',
  }),
  contents: flag({
    default: true,
    description:
      'Whether a `module` or `url` gets the arguments and results of calls; `false`: names, outcome and times.',
  }),
  timeout: duration({ default: '5s', description: 'Time limit for one evaluation by a `module` or `url`.' }),
  objective: duration({
    default: '1s',
    description: 'For `latency`: a call within this time scores 1, a call of twice the time 0.5.',
  }),
});

export const evaluators = map(evaluator, {
  description: 'Programs that score finished calls of tools and agents, by name. See [evaluators.md](evaluators.md).',
  keys: 'server',
});

interface Written {
  readonly evaluators: Readonly<
    Record<
      string,
      { readonly builtin?: string; readonly module?: string; readonly url?: string; readonly token?: string }
    >
  >;
}

const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/** Rules about evaluators that concern several keys. */
export function evaluatorRules({ evaluators: written }: Written, { problems, origins }: Reading): void {
  for (const [name, { builtin, module, url, token }] of Object.entries(written ?? {})) {
    const key = join('evaluators', name);
    const at = origins.get(key);
    if (!NAME.test(name))
      problems.error(
        'name',
        key,
        `${show(name)} is not a name for an evaluator`,
        'write up to 64 small letters, digits, dashes and underscores',
        at,
      );
    const kinds = [builtin, module, url].filter((kind) => kind !== undefined);
    if (kinds.length !== 1 && !problems.all.some((problem) => problem.key.startsWith(`${key}.`)))
      problems.error('required', key, 'needs one of builtin, module and url', 'write exactly one of them', at);
    if (token !== undefined && url === undefined)
      problems.warn(
        'conflict',
        join(key, 'token'),
        'has no effect without url',
        'remove token',
        origins.get(join(key, 'token')),
      );
    if (module !== undefined) readable(module, join(key, 'module'), problems, origins);
  }
}

function readable(file: string, key: string, problems: Problems, origins: Reading['origins']): void {
  try {
    accessSync(file, constants.R_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    problems.error(
      'file',
      key,
      `${show(file)} cannot be read (${code ?? 'unknown'})`,
      'correct the path',
      origins.get(key),
    );
  }
}
