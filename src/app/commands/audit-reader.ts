/** Reads the audit trail of a configuration's database: for the commands of an operator. */
import type { Config } from '../../config/schema.js';
import { globOf } from '../../core/catalog/glob.js';
import type { AuditRange, SignedPlace, StoredAuditRecord, Verification } from '../../state/index.js';
import { SILENT } from '../../telemetry/log.js';
import { openStorage } from '../storage.js';

export type { AuditRange, SignedPlace, StoredAuditRecord, Verification } from '../../state/index.js';

/** Conditions on records. Names are patterns in which `*` matches any characters. */
export interface AuditFilter {
  readonly caller?: string | undefined;
  readonly server?: string | undefined;
  readonly tool?: string | undefined;
  readonly decision?: string | undefined;
  readonly kind?: string | undefined;
}

export interface AuditReader {
  /**
   * The matching records of all replicas in the order of their times. The memory in use does not depend on the number
   * of records.
   */
  read(range: AuditRange, filter: AuditFilter): AsyncGenerator<StoredAuditRecord>;
  verify(expected?: readonly SignedPlace[]): Promise<Verification>;
  close(): Promise<void>;
}

export async function openAuditReader(config: Config): Promise<AuditReader> {
  const state = await openStorage(config, SILENT);
  return {
    read: async function* (range, filter) {
      const matches = matcherOf(filter);
      for await (const record of state.audit.read(range)) if (matches(record.value)) yield record;
    },
    verify: (expected) => state.audit.verify(expected),
    close: () => state.close(),
  };
}

type Fields = Readonly<Record<string, unknown>>;

export function matcherOf({ caller, server, tool, decision, kind }: AuditFilter): (value: unknown) => boolean {
  const conditions: ((fields: Fields) => boolean)[] = [];
  const add = (pattern: string | undefined, read: (fields: Fields) => unknown): void => {
    if (pattern === undefined) return;
    const glob = globOf(pattern);
    conditions.push((fields) => {
      const value = read(fields);
      return typeof value === 'string' && glob.test(value);
    });
  };
  add(caller, ({ caller }) => caller);
  add(
    server,
    (fields) => fields['server'] ?? (/^(server|agent)\./.test(String(fields['action'])) && fields['subject']),
  );
  add(tool, ({ target, name }) => target === 'tool' && name);
  add(decision, ({ decision }) => decision);
  add(kind, ({ kind }) => kind);
  // Checkpoints describe no action of a caller, so they are listed only on request.
  if (kind === undefined) conditions.push((fields) => fields['kind'] !== 'checkpoint');
  return (value) => {
    const fields = typeof value === 'object' && value !== null ? (value as Fields) : {};
    return conditions.every((holds) => holds(fields));
  };
}
