import { ProtocolError } from '../../protocol/errors.js';
import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { isObject } from '../../protocol/mcp/model.js';
import type { Caller } from '../caller.js';
import type { View } from '../view.js';
import type { CapabilitySet } from './capability-set.js';
import type { Catalog, ShownPart } from './catalog.js';
import { splitAnywhere } from './names.js';
import { matchesTemplate, uriRoot } from './uri-templates.js';

/** A server, and the configured name of one of its items, before any prefix. */
export interface Resolved {
  readonly server: string;
  readonly name: string;
}

export type NamedList = 'tools/list' | 'prompts/list';

/**
 * Finds the server of a name or a URI among the items that the caller sees. Hidden items do not exist for the caller.
 */
export class Resolver {
  constructor(private readonly catalog: Catalog) {}

  /**
   * Resolves a prefixed name, a dotted name, or a bare name that only one server has. Returns no promise if nothing is
   * hidden.
   */
  resolve(
    caller: Caller,
    view: View,
    name: string,
    method: NamedList,
    set: CapabilitySet,
  ): Resolved | Promise<Resolved> {
    const { catalog } = this;
    const found = this.split(view, name, method);
    if (!found) return this.search(caller, view, name, method, set);
    const free = catalog.showsAll(caller) && !view.filters(LISTS[method]);
    if (free && (view.only !== undefined || !catalog.namingOf(view).mayBeShortened(name))) return found;
    return this.checked(caller, view, name, method, set, found);
  }

  /**
   * Resolves the name of a prompt. If some targets are hidden from the caller, the prompt must be in a list that the
   * caller sees. Otherwise an absent prompt would get an error of the server and a hidden prompt an error of the
   * gateway, and the caller could tell them apart.
   */
  async prompt(caller: Caller, view: View, name: string, set: CapabilitySet): Promise<Resolved> {
    const { catalog } = this;
    const found = await this.resolve(caller, view, name, 'prompts/list', set);
    if (catalog.withholds(found.server, 'prompt', found.name)) throw unknownName('prompts/list', name);
    if (catalog.showsAll(caller) || !catalog.has(found.server)) return found;
    const { part, missing } = await catalog.partOf(caller, view, found.server, 'prompts/list', set);
    if (part && has(part, found.name)) return found;
    // The lists are not known before the caller signs in. The call asks the caller to sign in.
    if (catalog.isSignedOut(caller, found.server)) return found;
    if (!missing) throw unknownName('prompts/list', name);
    throw new ProtocolError(
      'upstream_unavailable',
      `The prompts of server "${missing.server}" cannot be listed at the moment`,
      {
        outcome: 'not_executed',
        data: { ...missing },
      },
    );
  }

  /**
   * Splits a name into a server of the view and an own name. The names of hidden servers must not take part in the
   * match.
   */
  private split(view: View, name: string, method: NamedList, hidden?: ReadonlySet<string>): Resolved | undefined {
    const { catalog } = this;
    if (view.only !== undefined) return hidden?.has(view.only) ? undefined : { server: view.only, name };
    const servers = { has: (server: string) => catalog.inView(view, server) && !hidden?.has(server) };
    const renamed = method === 'tools/list' ? view.renamedTool(name) : undefined;
    if (renamed !== undefined) {
      const { singleServer: server } = view;
      const owner = splitAnywhere(renamed, servers) ?? (server !== undefined && { server, own: renamed });
      return owner && servers.has(owner.server) ? { server: owner.server, name: owner.own } : undefined;
    }
    const found = catalog.namingOf(view).split(name, servers);
    return found && { server: found.server, name: found.own };
  }

  /**
   * Finds the server by the name alone, even if the caller does not see that server. Only for audit records, never for
   * answers.
   */
  named(view: View, name: string, method: NamedList): Resolved | undefined {
    return this.split(view, name, method);
  }

  /** The first split whose server the caller sees. */
  private async seenSplit(
    caller: Caller,
    view: View,
    name: string,
    method: NamedList,
    first: Resolved,
  ): Promise<Resolved | undefined> {
    const hidden = new Set<string>();
    let split: Resolved | undefined = first;
    while (split && !(await this.catalog.sees(caller, split.server))) {
      hidden.add(split.server);
      split = this.split(view, name, method, hidden);
    }
    return split;
  }

  private async checked(
    caller: Caller,
    view: View,
    name: string,
    method: NamedList,
    set: CapabilitySet,
    first: Resolved,
  ): Promise<Resolved> {
    const { catalog } = this;
    const split = await this.seenSplit(caller, view, name, method, first);
    if (!split) return this.search(caller, view, name, method, set);
    const isTool = method === 'tools/list';
    const isNew = isTool && view.renamedTool(name) !== undefined;
    const short = view.only === undefined && !isNew && catalog.namingOf(view).mayBeShortened(name);
    const found = short ? await this.lengthened(caller, view, name, method, set, split) : split;
    if (!view.shows(LISTS[method], found.server, found.name)) throw unknownName(method, name);
    // A renamed tool has its new name only.
    if (isTool && !isNew && view.newName(found.server, found.name) !== undefined) throw unknownName(method, name);
    return found;
  }

  /** The only server that has an item of this name. */
  private async search(
    caller: Caller,
    view: View,
    name: string,
    method: NamedList,
    set: CapabilitySet,
  ): Promise<Resolved> {
    const isTool = method === 'tools/list';
    // A new name belongs to one tool, even while that tool is absent.
    if (isTool && view.renamedTool(name) !== undefined) throw unknownName(method, name);
    const { parts } = await this.catalog.parts(caller, view, method, set);
    const owners = parts.filter(
      (part) => has(part, name) && !(isTool && view.newName(part.server, name) !== undefined),
    );
    const [first, another] = owners;
    if (!first) throw unknownName(method, name);
    const naming = this.catalog.namingOf(view);
    if (!another || naming.firstKeeps) return { server: first.server, name };
    const candidates = owners.map(({ server }) => naming.prefixed(server, name));
    throw new ProtocolError(
      'ambiguous_name',
      `Several servers have a ${kindOf(method)} "${name}": ${candidates.join(', ')}`,
      { data: { candidates } },
    );
  }

  /** The full name of a shortened name. */
  private async lengthened(
    caller: Caller,
    view: View,
    name: string,
    method: NamedList,
    set: CapabilitySet,
    split: Resolved,
  ): Promise<Resolved> {
    const { server } = split;
    const { part } = await this.catalog.partOf(caller, view, server, method, set);
    const naming = this.catalog.namingOf(view);
    const found = part && itemsOf(part).find(({ key }) => naming.prefixed(server, key) === name);
    return found ? { server, name: found.key } : split;
  }

  /**
   * The server that owns a URI: the server that lists the URI, whose template matches it, or whose listed URIs have the
   * same scheme and authority. If some targets are hidden from the caller, the last rule does not apply, for the reason
   * given at `prompt`.
   */
  async ownerOf(caller: Caller, view: View, uri: string, set: CapabilitySet): Promise<string> {
    const { catalog } = this;
    const unknown = (): ProtocolError =>
      new ProtocolError('resource_not_found', `Resource not found: ${uri}`, { data: { uri } });
    if (!view.shows('resources', '', uri)) throw unknown();
    const all = catalog.showsAll(caller);
    if (view.only !== undefined && (all || !catalog.has(view.only))) return view.only;
    const listed = await catalog.parts(caller, view, 'resources/list', set);
    const exact = listed.parts.filter((part) => has(part, uri));
    const templated = await catalog.parts(caller, view, 'resources/templates/list', set);
    const owners =
      exact.length > 0
        ? exact
        : templated.parts.filter((part) => itemsOf(part).some(({ key }) => key === uri || matchesTemplate(key, uri)));
    if (owners.length === 1) return owners[0]!.server;
    if (owners.length > 1) {
      const candidates = owners.map(({ server }) => server);
      throw new ProtocolError('ambiguous_name', `Several servers have the resource ${uri}: ${candidates.join(', ')}`, {
        data: { uri, candidates },
      });
    }
    const root = all ? uriRoot(uri) : undefined;
    const akin = new Set(
      [...listed.parts, ...templated.parts]
        .filter((part) => root !== undefined && itemsOf(part).some(({ key }) => uriRoot(key) === root))
        .map(({ server }) => server),
    );
    if (akin.size === 1) return [...akin][0]!;
    // APP-04: the page of a tool need not be in any resource list.
    const tools = await catalog.parts(caller, view, 'tools/list', set);
    const shownBy = tools.parts.filter((part) => itemsOf(part).some(({ value }) => uiResource(value) === uri));
    if (shownBy.length === 1) return shownBy[0]!.server;
    if (view.only !== undefined && catalog.isSignedOut(caller, view.only)) return view.only;
    throw unknown();
  }
}

const LISTS = { 'tools/list': 'tools', 'prompts/list': 'prompts' } as const;

const has = ({ snapshot, hidden }: ShownPart, key: string): boolean => snapshot.byKey.has(key) && !hidden.has(key);

const itemsOf = ({ snapshot, hidden }: ShownPart) =>
  hidden.size === 0 ? snapshot.items : snapshot.items.filter(({ key }) => !hidden.has(key));

const kindOf = (method: NamedList): 'tool' | 'prompt' => (method === 'tools/list' ? 'tool' : 'prompt');

function unknownName(method: NamedList, name: string): ProtocolError {
  const kind = kindOf(method);
  const reason = kind === 'tool' ? 'tool_not_found' : 'prompt_not_found';
  return new ProtocolError(reason, `Unknown ${kind}: ${name}`, { data: { name } });
}

/** The URI of the page that MCP Apps shows for a tool. */
function uiResource(tool: JsonObject): unknown {
  const meta = tool['_meta'];
  if (!isObject(meta)) return undefined;
  const { ui } = meta;
  return isObject(ui) ? ui['resourceUri'] : meta['ui/resourceUri'];
}
