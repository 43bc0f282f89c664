/** Rules about `servers.<name>.replicas` and other keys. */
import { type Origin, type Problems, show } from './problem.js';
import type { WrittenConfig } from './schema.js';

type WrittenServer = WrittenConfig['servers'][string];

export interface ReplicaRule {
  /** `servers.<name>`. */
  readonly key: string;
  readonly server: WrittenServer;
  readonly problems: Problems;
  at(key: string): Origin | undefined;
  isWritten(key: string): boolean;
}

/**
 * Maximum number of replicas of one server. More replicas would make the health and metrics of the server hard to read.
 */
const MOST_REPLICAS = 64;

/** If `url` is missing, the first of the replicas becomes the `url`. */
export function withUrl(server: WrittenServer): WrittenServer {
  const [url, ...replicas] = server.replicas;
  if (server.url !== undefined || server.command !== undefined || url === undefined) return server;
  return { ...server, url, replicas };
}

/** Checks a server whose `url` is complete. */
export function checkReplicas({ key: parent, server, problems, at, isWritten }: ReplicaRule): void {
  const { url, replicas } = server;
  if (url === undefined || replicas.length === 0) return;
  const key = `${parent}.replicas`;
  if (replicas.length >= MOST_REPLICAS) {
    const message = `has ${replicas.length} URLs; ${MOST_REPLICAS - 1} besides url are the most`;
    problems.error('range', key, message, 'remove some, or put a load balancer in front of them', at(key));
  }
  const seen = new Set([url]);
  for (const each of replicas) {
    if (seen.has(each)) problems.error('duplicate', key, `${show(each)} is there twice`, 'remove one of them', at(key));
    seen.add(each);
  }
  if (!isWritten(`${parent}.auth.oauth`)) return;
  const [origin, ...others] = [...seen].flatMap((each) => (URL.canParse(each) ? new URL(each).origin : []));
  const foreign = others.find((other) => other !== origin);
  if (foreign !== undefined)
    problems.error(
      'conflict',
      key,
      `${show(foreign)} is another origin than that of url, and tokens of users go only to the origin where they signed in`,
      'use URLs of one origin, or remove auth.oauth',
      at(key),
    );
}
