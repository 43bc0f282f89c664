import { isProblem, readCondition } from '../identity/policy/policy-rule.js';
import { nearest, type Origin, type Problems, show } from './problem.js';
import { RESERVED_SERVERS } from './reserved-names.js';
import type { WrittenConfig } from './schema.js';
import { join } from './validate.js';

type WrittenView = WrittenConfig['views'][string];

export interface ViewRulesOptions {
  readonly config: Pick<WrittenConfig, 'views' | 'servers' | 'agents' | 'naming'>;
  readonly problems: Problems;
  at(key: string): Origin | undefined;
}

const NAME = /^(?!.*__)[a-z0-9_-]*[a-z0-9-]$/;

/** Rules for views over several keys. */
export function checkViews(options: ViewRulesOptions): void {
  const { config, problems, at } = options;
  const written = new Map<string, string>();
  for (const [given, view] of Object.entries(config.views)) {
    const key = join('views', given);
    const name = given.toLowerCase();
    const refuse = (message: string, fix: string): void => problems.error('name', key, message, fix, at(key));
    const other = written.get(name);
    if (!NAME.test(name))
      refuse(`${show(given)} cannot be the name of a view`, 'use letters, digits, dashes and single underscores');
    else if (other !== undefined) refuse(`${show(given)} is the same name as views.${other}`, 'rename one of them');
    else if (RESERVED_SERVERS.has(name))
      refuse(
        `${show(given)} is taken: ${RESERVED_SERVERS.get(name)} is an endpoint of the gateway`,
        `rename it, for example to ${name}-view`,
      );
    else if (config.servers[name]) refuse(clash(name, 'a server'), 'rename one of them');
    else if (offersTools(config.agents[name]))
      refuse(clash(name, 'an agent with skills as tools'), 'rename one of them');
    written.set(name, given);
    checkView(view, key, options);
  }
}

const clash = (name: string, what: string): string =>
  `${show(name)} is also the name of ${what}, and both would be served at /mcp/${name}`;

/** The problem of a server that joins a configuration in effect under the name of a view. */
export function serverBesideViews(name: string, { config, problems, at }: ViewRulesOptions): void {
  if (!Object.keys(config.views).some((view) => view.toLowerCase() === name)) return;
  const key = join('servers', name);
  problems.error('name', key, clash(name, 'a view'), 'give the server another name', at(key));
}

function checkView(view: WrittenView, key: string, { config, problems, at }: ViewRulesOptions): void {
  const servers = [
    ...Object.keys(config.servers),
    ...Object.keys(config.agents).filter((name) => offersTools(config.agents[name])),
  ];
  for (const [index, name] of view.servers.entries()) {
    if (servers.includes(name.toLowerCase())) continue;
    const near = nearest(name.toLowerCase(), servers);
    // Only a warning, because the server may be registered later, while the gateway runs.
    const fix = near === undefined ? 'add the server, or remove it here' : `did you mean ${near}?`;
    const path = `${key}.servers[${index}]`;
    problems.warn('name', path, `there is no server ${show(name)} in the configuration`, fix, at(path));
  }
  const groups = new Set(Object.values(config.servers).flatMap((server) => server.groups ?? []));
  for (const [index, group] of view.groups.entries()) {
    if (groups.has(group)) continue;
    const near = nearest(group, [...groups]);
    const fix = near === undefined ? 'add the group to a server' : `did you mean ${near}?`;
    const path = `${key}.groups[${index}]`;
    problems.warn('name', path, `no server of the configuration is in the group ${show(group)}`, fix, at(path));
  }
  checkSeparator(view, key, servers, { config, problems, at });
  checkRename(view, key, { config, problems, at });
  if (view.when !== undefined) checkCondition(view.when, `${key}.when`, problems, at);
}

function checkSeparator(
  { naming, servers: chosen }: WrittenView,
  key: string,
  all: readonly string[],
  { problems, at }: ViewRulesOptions,
): void {
  if (naming.separator !== '-') return;
  const dashed = (chosen.length > 0 ? chosen : all).find((name) => name.includes('-'));
  if (dashed === undefined) return;
  const path = join(join(key, 'naming'), 'separator');
  const message = `"-" is ambiguous: the name of the server ${show(dashed)} contains it`;
  problems.error('name', path, message, 'write "__" or "."', at(path));
}

function checkRename(view: WrittenView, key: string, { problems, at }: ViewRulesOptions): void {
  const taken = new Map<string, string>();
  const single = view.servers.length === 1 && view.groups.length === 0;
  for (const [tool, name] of Object.entries(view.tools.rename)) {
    const path = join(join(key, 'tools.rename'), tool);
    const other = taken.get(name);
    if (other !== undefined)
      problems.error(
        'duplicate',
        path,
        `${show(name)} is also the new name of ${show(other)}`,
        'give each tool a different name',
        at(path),
      );
    taken.set(name, tool);
    if (!single && !/__|[.-]/.test(tool))
      problems.error('name', path, `${show(tool)} names no server`, `write the name as server__${tool}`, at(path));
  }
}

function checkCondition(when: string, key: string, problems: Problems, at: ViewRulesOptions['at']): void {
  const read = readCondition(when);
  if (isProblem(read)) {
    problems.error(
      'condition',
      key,
      `${read.message} (column ${read.column})`,
      'correct the condition; docs/policy.md lists the variables',
      at(key),
    );
    return;
  }
  const foreign = [...read.reads].find((name) => !/^(caller\.|jwt$|time$)/.test(name));
  if (foreign !== undefined)
    problems.error(
      'condition',
      key,
      `reads ${foreign}, which a view does not have`,
      'use caller, jwt and time only; write other rules in policy.rules',
      at(key),
    );
}

/** Whether the skills of an agent are tools at /mcp/<name>; an agent made of tools adds none. */
const offersTools = (agent: WrittenConfig['agents'][string] | undefined): boolean =>
  agent?.mcp === true && agent.tools.length === 0;
