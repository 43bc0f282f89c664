import type { JsonObject } from '../../protocol/jsonrpc/raw.js';
import { isObject, RawObject } from '../../protocol/jsonrpc/raw.js';
import type { Log } from '../../telemetry/log.js';
import { Cancellation, GATEWAY } from '../caller.js';
import { definitionOf } from '../pinning/definition-hash.js';
import type { Replica } from './replica.js';

export interface ToolComparisonOptions {
  readonly server: string;
  readonly replicas: readonly Replica[];
  /** The replica whose tools callers see. */
  readonly lead: () => Replica;
  readonly log: Log;
}

/** The definitions of a replica's tools: hashes by name. */
type Tools = ReadonlyMap<string, string>;

const MOST_PAGES = 50;
const MOST_TOOLS = 10_000;
/** The age at which a list is read again even without an announced change, in milliseconds. */
const MOST_AGE = 5 * 60_000;
/** The pause before a changed list is read, in milliseconds. */
const CHANGE_PAUSE = 1_000;
/** The most tool names in one report. */
const SHOWN = 3;

/**
 * Compares the tools of replicas with those of the lead, which callers see. A replica gets no calls of a tool that it
 * lacks or defines differently, because callers saw the lead's definition, and the pin of a tool is valid for all
 * replicas of the server.
 */
export class ToolComparison {
  private readonly tools = new Map<string, { readonly tools: Tools; readonly at: number }>();
  private readonly reading = new Map<string, Promise<void>>();
  /** The reported differences by replica, for the current lead. */
  private differences = new Map<string, string>();
  private comparedWith: Replica | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: ToolComparisonOptions) {}

  /**
   * Called when the list of the replica may have changed. The known list counts until the new list is read after a
   * short pause. The pause limits the requests for a replica that announces changes without end.
   */
  changed({ id }: Replica): void {
    const known = this.tools.get(id);
    if (known) this.tools.set(id, { ...known, at: Number.NEGATIVE_INFINITY });
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      void this.refresh();
    }, CHANGE_PAUSE).unref();
  }

  close(): void {
    clearTimeout(this.timer);
  }

  /** Reads the lists that are missing or old. Never fails. */
  async refresh(): Promise<void> {
    const old = performance.now() - MOST_AGE;
    const due = this.options.replicas.filter(({ id }) => (this.tools.get(id)?.at ?? Number.NEGATIVE_INFINITY) < old);
    await Promise.all(due.map((replica) => this.read(replica)));
    this.report();
  }

  /** Whether the known list of the lead contains the tool. */
  knows(tool: string): boolean {
    return this.tools.get(this.options.lead().id)?.tools.has(tool) ?? false;
  }

  /** Whether a replica may get calls of a tool. True while the lists are not known. */
  fits(id: string, tool: string): boolean {
    const own = this.tools.get(id)?.tools;
    const shown = this.tools.get(this.options.lead().id)?.tools;
    const hash = shown?.get(tool);
    return own === undefined || hash === undefined || own.get(tool) === hash;
  }

  /** How the tools of a replica differ from those of the lead; undefined if they do not differ or are not known. */
  difference({ id }: Replica): string | undefined {
    if (this.comparedWith !== this.options.lead()) this.report();
    return this.differences.get(id);
  }

  private compared(replica: Replica, lead: Replica): string | undefined {
    const [own, shown] = [this.tools.get(replica.id)?.tools, this.tools.get(lead.id)?.tools];
    if (replica === lead || !own || !shown || own === shown) return undefined;
    const lacking = [...shown.keys()].filter((name) => !own.has(name));
    const extra = [...own.keys()].filter((name) => !shown.has(name));
    const other = [...shown].filter(([name, hash]) => own.has(name) && own.get(name) !== hash).map(([name]) => name);
    const parts = [
      ...(lacking.length > 0 ? [`it lacks ${named(lacking)}`] : []),
      ...(extra.length > 0 ? [`only it has ${named(extra)}`] : []),
      ...(other.length > 0 ? [`it defines ${named(other)} differently`] : []),
    ];
    return parts.length > 0 ? parts.join('; ') : undefined;
  }

  /** Compares all lists, and logs new differences. */
  private report(): void {
    const { replicas, server, log, lead } = this.options;
    const before = this.differences;
    const shown = lead();
    this.comparedWith = shown;
    this.differences = new Map();
    for (const replica of replicas) {
      const difference = this.compared(replica, shown);
      if (difference === undefined) continue;
      this.differences.set(replica.id, difference);
      if (before.get(replica.id) === difference) continue;
      const fields = { event: 'replica.differs', server, replica: replica.place, why: difference };
      log.warn(fields, 'the tools of a replica differ from those that the gateway lists');
    }
  }

  private read(replica: Replica): Promise<void> {
    const known = this.reading.get(replica.id);
    if (known) return known;
    const reading = readTools(replica)
      .then((tools) => {
        if (tools) this.tools.set(replica.id, { tools, at: performance.now() });
      })
      .catch(() => {})
      .finally(() => this.reading.delete(replica.id));
    this.reading.set(replica.id, reading);
    return reading;
  }
}

const named = (names: readonly string[]): string => {
  const shown = names.slice(0, SHOWN).map((name) => JSON.stringify(name.slice(0, 100)));
  return `${shown.join(', ')}${names.length > SHOWN ? ` and ${names.length - SHOWN} more` : ''}`;
};

/** All tools of a replica; undefined if the list cannot be read. */
async function readTools({ upstream }: Replica): Promise<Tools | undefined> {
  const tools = new Map<string, string>();
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const outcome = await upstream.request(GATEWAY, {
      method: 'tools/list',
      params: RawObject.from(cursor === undefined ? {} : { cursor }),
      wantsProgress: false,
      logLevel: undefined,
      cancellation: new Cancellation(),
      mirrored: [],
      tasks: 'none',
      notify: () => {},
    });
    if (outcome.kind !== 'complete') return undefined;
    const { tools: listed, nextCursor } = outcome.result.value();
    for (const tool of Array.isArray(listed) ? listed : []) {
      if (!isObject(tool) || typeof tool['name'] !== 'string' || tools.size >= MOST_TOOLS) continue;
      tools.set(tool['name'], definitionOf('tool', tool as JsonObject).hash);
    }
    if (typeof nextCursor !== 'string') return tools;
    cursor = nextCursor;
  }
  return tools;
}
