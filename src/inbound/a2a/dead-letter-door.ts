import { ProtocolError } from '../../protocol/errors.js';
import { sendJson } from '../http/reply.js';
import type { Route, Router } from '../http/server.js';

/** What could not be delivered; an owner sees its own, an administrator everybody's. */
export interface DeadLetterBox {
  deadLetters(owner: string | undefined, page: { after?: string; limit?: number }): Promise<object>;
  /** False where there is no such letter. */
  replay(id: string, owner: string | undefined): Promise<boolean>;
}

export const DEAD_LETTERS = '/a2a/push/dead';

/** Notifications that were given up: `GET` shows them, `POST …/<id>` sends one again. */
export class DeadLetterDoor {
  constructor(private readonly box: DeadLetterBox) {}

  readonly router: Router = (path) => {
    if (path !== DEAD_LETTERS && !path.startsWith(`${DEAD_LETTERS}/`)) return undefined;
    const id = path.slice(DEAD_LETTERS.length + 1);
    return id === '' ? this.listing : this.replaying(id);
  };

  private readonly listing: Route = {
    handle: async ({ req, res, headers, query }, principal) => {
      checkVerb(req.method, 'GET');
      const owner = principal.admin ? undefined : principal.name;
      const [after, limit] = [query.get('after'), query.get('limit')];
      const page = { ...(after !== null && { after }), ...(limit !== null && { limit: Number(limit) || 0 }) };
      const found = await this.box.deadLetters(owner, page);
      sendJson(res, 200, headers, [Buffer.from(JSON.stringify(found))]);
    },
  };

  private replaying(id: string): Route {
    return {
      handle: async ({ req, res, headers }, principal) => {
        checkVerb(req.method, 'POST');
        if (!(await this.box.replay(decodeURIComponent(id), principal.admin ? undefined : principal.name)))
          throw new ProtocolError('not_found', 'There is no such notification among those that were given up');
        sendJson(res, 202, headers, [Buffer.from(JSON.stringify({ id, status: 'queued' }))]);
      },
    };
  }
}

function checkVerb(given: string | undefined, wanted: string): void {
  if (given === wanted) return;
  throw new ProtocolError('http_method_not_allowed', `HTTP method ${given} not allowed`, {
    headers: { Allow: `${wanted}, OPTIONS` },
  });
}
