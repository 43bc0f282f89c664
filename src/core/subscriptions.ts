import { ProtocolError } from '../protocol/errors.js';
import {
  LIST_CHANGED,
  LIST_KINDS,
  type ListKind,
  type Notification,
  type SubscriptionFilter,
} from '../protocol/mcp/model.js';
import { detailedTask } from '../protocol/mcp/translate/task.js';
import { type Admission, type ItemTarget, ifVisible, knownBy, sees, serverTarget } from './admission.js';
import type { McpContext } from './call.js';
import { GATEWAY } from './caller.js';
import { answeredWithin } from './catalog/answered-within.js';
import type { Catalog } from './catalog/catalog.js';
import type { Resolver } from './catalog/owner-resolver.js';
import type { HostedTaskRecord } from './era-bridge/hosted-task-record.js';
import type { HostedTasks } from './era-bridge/hosted-tasks.js';
import type { Forwarder } from './forward.js';
import type { Deliver, Subscription, View } from './gateway.js';
import { SubscriptionSlots } from './subscription-slots.js';
import type { Watch } from './upstream.js';

/** How long a subscription to all servers waits for one server to confirm its part. */
const LIST_PATIENCE = 1_000;
const RESOURCE_PATIENCE = 5_000;

export interface SubscriptionsOptions {
  readonly catalog: Catalog;
  readonly resolver: Resolver;
  readonly admission: Admission;
  readonly forwarder: Pick<Forwarder, 'ownedTasks'>;
  readonly tasks: HostedTasks;
}

/** Opens subscriptions of callers: to changed lists, to resources of any server, to tasks that the gateway hosts. */
export class Subscriptions {
  private readonly slots = new SubscriptionSlots();

  constructor(private readonly options: SubscriptionsOptions) {}

  /** Only the pipeline calls this method, after all interceptors. Resolves once the upstream watches are live. */
  async open(context: McpContext, filter: SubscriptionFilter, deliver: Deliver): Promise<Subscription> {
    const release = this.slots.take(context.caller, filter);
    try {
      const subscription = await this.opened(context, filter, deliver);
      return {
        ...subscription,
        close: () => {
          release();
          subscription.close();
        },
      };
    } catch (error) {
      release();
      throw error;
    }
  }

  private async opened(context: McpContext, filter: SubscriptionFilter, deliver: Deliver): Promise<Subscription> {
    const { catalog, admission } = this.options;
    const { caller } = context;
    const { view } = context.call;
    const upstreams = await catalog.upstreams(caller, view);
    if (view.only !== undefined && upstreams.length === 0)
      throw new ProtocolError('not_found', `There is no server "${view.only}"`);
    const wanted = LIST_KINDS.filter((kind) => filter[kind]);
    const byServer = await this.subscriptionsByServer(context, filter.resourceSubscriptions ?? []);
    const followed = await this.admittedTasks(context, filter.taskIds ?? []);
    const taskIds = [...followed.keys()];
    let closed = false;
    const followedTasks = this.options.tasks.onChange(
      taskIds,
      this.taskNotices(context, followed, (notice) => {
        if (!closed) deliver(notice);
      }),
    );
    const own = catalog.setOf(caller, view);
    const stop = catalog.onChange((kind, server, set, owner) => {
      if (!filter[kind] || !catalog.concerns(view, server) || (set !== undefined && set !== own)) return;
      // A subscription of the gateway serves the sessions of many callers, so it gets the changes of every owner.
      if (owner !== undefined && owner !== caller.principal.key && caller.principal !== GATEWAY.principal) return;
      ifVisible(admission, caller, serverTarget(server), () => {
        if (!closed) deliver({ method: LIST_CHANGED[kind], params: {} }, server, owner);
      });
    });
    const watches: Watch[] = [];
    await Promise.all(
      upstreams.map(async (upstream) => {
        const uris = byServer.get(upstream.name) ?? [];
        const part: SubscriptionFilter = {
          ...Object.fromEntries(wanted.map((kind) => [kind, true])),
          ...(uris.length > 0 && { resourceSubscriptions: uris }),
        };
        if (wanted.length === 0 && uris.length === 0) return;
        const watching = upstream
          .watch(
            part,
            (event) => {
              if (event.kind !== 'resourceUpdated') return;
              const { uri } = event;
              // The configuration of the view may have changed since.
              if (!catalog.inView(view, upstream.name) || !view.shows('resources', upstream.name, uri)) return;
              // The caller may have lost the permission since the subscription was opened.
              ifVisible(admission, caller, { server: upstream.name, kind: 'resource', name: uri }, () => {
                if (!closed) deliver({ method: 'notifications/resources/updated', params: { uri } });
              });
            },
            caller,
          )
          .then(
            (watch) => void (closed ? watch.close() : watches.push(watch)),
            // The watch failed, so the resources of this server are not confirmed. The catalog watches the lists of the
            // server again when the server returns.
            () => {},
          );
        if (view.only !== undefined) await watching;
        // The catalog reports changed lists of all servers, so the wait for a slow confirmation is limited.
        else if (uris.length > 0) await answeredWithin(watching, RESOURCE_PATIENCE);
        else if (catalog.hasAnswered(upstream.name)) await answeredWithin(watching, LIST_PATIENCE);
      }),
    );
    await followedTasks.ready;
    return {
      honoured: { ...this.honoured(view, wanted, filter, watches), ...(taskIds.length > 0 && { taskIds }) },
      close: () => {
        closed = true;
        stop();
        followedTasks.stop();
        for (const watch of watches) watch.close();
      },
    };
  }

  private async subscriptionsByServer(context: McpContext, uris: readonly string[]): Promise<Map<string, string[]>> {
    const byServer = new Map<string, string[]>();
    const { catalog, resolver } = this.options;
    const { caller, call } = context;
    const set = catalog.setOf(caller, call.view);
    for (const uri of new Set(uris)) {
      try {
        const server = await resolver.ownerOf(caller, call.view, uri, set);
        if (!(await this.admits(context, { server, kind: 'resource', name: uri }))) continue;
        const own = byServer.get(server);
        if (own) own.push(uri);
        else byServer.set(server, [uri]);
      } catch (error) {
        // A resource that is not admitted is not acknowledged (BR-21).
        if (!(error instanceof ProtocolError)) throw error;
      }
    }
    return byServer;
  }

  /**
   * Delivers the changes of tasks that the caller may still read: the policy may have changed since the subscription
   * was opened. Of several changes during a decision only the newest is delivered.
   */
  private taskNotices(
    context: McpContext,
    followed: ReadonlyMap<string, ItemTarget>,
    deliver: Deliver,
  ): (record: HostedTaskRecord) => void {
    const undecided = new Map<string, HostedTaskRecord>();
    return (record) => {
      const { taskId } = record;
      const target = followed.get(taskId);
      const decides = undecided.has(taskId);
      undecided.set(taskId, record);
      if (decides || !target) return;
      const decided = (admitted: boolean): void => {
        const newest = undecided.get(taskId)!;
        undecided.delete(taskId);
        if (admitted) deliver({ method: 'notifications/tasks', params: taskNotice(newest) });
      };
      this.admits(context, target).then(decided, () => decided(false));
    };
  }

  private async admittedTasks(context: McpContext, taskIds: readonly string[]): Promise<Map<string, ItemTarget>> {
    const admitted = new Map<string, ItemTarget>();
    for (const target of await this.options.forwarder.ownedTasks(context.caller, taskIds, context.call.view)) {
      try {
        if (await this.admits(context, target)) admitted.set(target.name, target);
      } catch (error) {
        // A task that is not admitted is not acknowledged.
        if (!(error instanceof ProtocolError)) throw error;
      }
    }
    return admitted;
  }

  /** Admits one resource or one task. Returns false if the target is hidden, and throws the reason of a refusal. */
  private async admits(context: McpContext, target: ItemTarget): Promise<boolean> {
    const { admission } = this.options;
    const { protocol, method, caller } = context;
    if (!(await sees(admission, caller, knownBy(target)))) return false;
    await admission.admit({ protocol, method, caller, target, arguments: context.arguments });
    return true;
  }

  private honoured(
    view: View,
    wanted: readonly ListKind[],
    filter: SubscriptionFilter,
    watches: readonly Watch[],
  ): SubscriptionFilter {
    const honoured: SubscriptionFilter = {};
    // The merged lists also change with the configuration, and the gateway always notices that.
    for (const kind of wanted)
      if (view.only === undefined || watches.some((watch) => watch.honoured[kind])) honoured[kind] = true;
    const confirmed = new Set(watches.flatMap((watch) => watch.honoured.resourceSubscriptions ?? []));
    const uris = (filter.resourceSubscriptions ?? []).filter((uri) => confirmed.has(uri));
    if (uris.length > 0) honoured.resourceSubscriptions = uris;
    return honoured;
  }
}

/** The content of a task notification: the same as the result of `tasks/get`. */
function taskNotice(record: HostedTaskRecord): Notification['params'] {
  const { resultType: _, ...task } = detailedTask(record);
  return task;
}
