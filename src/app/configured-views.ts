/** The configured views: their selections, and the callers that may use them. */
import type { Config } from '../config/schema.js';
import { type Admission, serverTarget, visible } from '../core/admission.js';
import { callerOf, type Principal } from '../core/caller.js';
import type { Catalog } from '../core/catalog/catalog.js';
import type { Selection, View } from '../core/view.js';
import { Views } from '../core/views.js';
import { Condition } from '../identity/policy/condition.js';
import { Facts } from '../identity/policy/policy-question.js';

type ViewSettings = Pick<Config, 'views' | 'naming'>;

export interface ConfiguredViewsOptions {
  readonly config: ViewSettings;
  readonly catalog: Pick<Catalog, 'servers' | 'inView' | 'visibilityChanged'>;
  readonly admission: Admission;
}

export class ConfiguredViews {
  private readonly views: Views;
  private conditions: ReadonlyMap<string, Condition>;

  constructor(private readonly options: ConfiguredViewsOptions) {
    this.views = new Views(selectionsOf(options.config));
    this.conditions = conditionsOf(options.config);
  }

  /** Replaces the views. Tells clients that use a view that their lists may have changed. */
  configure(config: ViewSettings): void {
    this.views.configure(selectionsOf(config));
    this.conditions = conditionsOf(config);
    this.options.catalog.visibilityChanged();
  }

  get(name: string): View | undefined {
    return this.views.get(name);
  }

  get names(): readonly string[] {
    return this.views.names;
  }

  /**
   * Whether the caller may know that the view exists: its condition holds for the caller, and the caller may use one of
   * its servers. A condition that fails does not hold.
   */
  sees(principal: Principal, view: View): boolean | Promise<boolean> {
    const condition = this.conditions.get(view.name ?? '');
    if (condition && condition.evaluate(factsOf(principal)) !== true) return false;
    const { catalog, admission } = this.options;
    const servers = catalog.servers.filter((server) => catalog.inView(view, server));
    if (servers.length === 0) return true;
    const seen = visible(admission, callerOf(principal), servers, serverTarget);
    return seen instanceof Promise ? seen.then(({ length }) => length > 0) : seen.length > 0;
  }
}

const factsOf = (principal: Principal): Facts =>
  new Facts({
    principal,
    protocol: 'mcp',
    method: undefined,
    subject: { kind: 'server', server: undefined, name: '' },
  });

function conditionsOf({ views }: ViewSettings): ReadonlyMap<string, Condition> {
  return new Map(
    Object.entries(views).flatMap(([name, { when }]) =>
      when === undefined ? [] : [[name.toLowerCase(), Condition.parse(when)] as const],
    ),
  );
}

const selectionsOf = (config: ViewSettings): Record<string, Selection> =>
  Object.fromEntries(
    Object.entries(config.views).map(([name, view]) => [name.toLowerCase(), selectionOf(view, config.naming)]),
  );

/** The selection of a view as the configuration writes it. */
export function selectionOf(view: Config['views'][string], gateway: Config['naming']): Selection {
  const { servers, groups, tools, prompts, resources, naming, routing } = view;
  const { exposure, pinned } = routing;
  return {
    ...(servers.length > 0 && { servers: servers.map((server) => server.toLowerCase()) }),
    ...(groups.length > 0 && { groups }),
    tools,
    prompts,
    resources,
    ...((naming.separator !== undefined || naming.prefix !== undefined) && { naming: { ...gateway, ...naming } }),
    ...(exposure !== undefined && { exposure: { exposure, pinned } }),
  };
}
