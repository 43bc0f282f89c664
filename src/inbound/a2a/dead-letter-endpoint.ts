import type { Principal } from '../../core/caller.js';
import { isWholeAdmin } from '../../core/whole-admin.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { ErrorFormat, RequestContext, Route } from '../http/route.js';
import { sendJson } from '../http/send-body.js';

/** Undelivered notifications. An owner sees its own notifications, an administrator sees all. */
export interface DeadLetterBox {
  deadLetters(owner: string | undefined, page: { after?: string; limit?: number }): Promise<object>;
  /** False if there is no such notification. */
  replay(id: string, owner: string | undefined): Promise<boolean>;
}

const DEAD_LETTERS = '/a2a/push/dead';

/** Undeliverable notifications: `GET` lists them, `POST …/<id>` sends a notification again. */
export class DeadLetterEndpoint {
  constructor(private readonly box: DeadLetterBox) {}

  routes(errors: ErrorFormat): Route[] {
    const route = { access: 'user', errors } as const;
    return [
      {
        ...route,
        method: 'GET',
        path: DEAD_LETTERS,
        description: 'Notifications that could not be delivered',
        handle: (context) => this.list(context),
      },
      {
        ...route,
        method: 'POST',
        path: `${DEAD_LETTERS}/{id}`,
        description: 'Sends an undeliverable notification again',
        handle: (context) => this.replay(context),
      },
    ];
  }

  private async list({ res, headers, query, principal }: RequestContext): Promise<void> {
    const [after, limit] = [query.get('after'), query.get('limit')];
    const page = { ...(after !== null && { after }), ...(limit !== null && { limit: Number(limit) || 0 }) };
    const found = await this.box.deadLetters(ownerOf(principal), page);
    sendJson(res, 200, headers, [Buffer.from(JSON.stringify(found))]);
  }

  private async replay({ res, headers, params, principal }: RequestContext): Promise<void> {
    const id = params['id']!;
    if (!(await this.box.replay(id, ownerOf(principal))))
      throw new ProtocolError('not_found', 'There is no undeliverable notification with this id');
    sendJson(res, 202, headers, [Buffer.from(JSON.stringify({ id, status: 'queued' }))]);
  }
}

/** Administrators of the whole gateway see the notifications of all owners. */
const ownerOf = (principal: Principal): string | undefined => (isWholeAdmin(principal) ? undefined : principal.key);
