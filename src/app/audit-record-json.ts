import type { AuditRecord, CallRecord } from '../core/audit-trail.js';

/** The JSON of a record. Every call has one, and most of its texts repeat, so that of calls is put together here. */
export const textOf = (record: AuditRecord): string =>
  record.kind === 'call' ? callText(record) : JSON.stringify(record);

/** The same as `JSON.stringify` for a record whose members are in this order, in less than half of the time. */
function callText(record: CallRecord): string {
  const { phase, protocol, method, caller, issuer, tenant, roles, address, account, server, target, name } = record;
  const { arguments: hash, decision, rule, by, outcome, reason, ms, trace, requestId } = record;
  let text = '{"kind":"call"';
  if (phase !== undefined) text += `,"phase":${known(phase)}`;
  text += `,"protocol":${known(protocol)},"method":${known(method)},"caller":${known(caller)}`;
  if (issuer !== undefined) text += `,"issuer":${known(issuer)}`;
  if (tenant !== undefined) text += `,"tenant":${known(tenant)}`;
  if (roles !== undefined) text += `,"roles":${JSON.stringify(roles)}`;
  if (address !== undefined) text += `,"address":${known(address)}`;
  if (account !== undefined) text += `,"account":${known(account)}`;
  if (server !== undefined) text += `,"server":${known(server)}`;
  if (target !== undefined) text += `,"target":${known(target)}`;
  if (name !== undefined) text += `,"name":${known(name)}`;
  if (hash !== undefined) text += `,"arguments":${unique(hash)}`;
  if (decision !== undefined) text += `,"decision":${known(decision)}`;
  if (rule !== undefined) text += `,"rule":${known(rule)}`;
  if (by !== undefined) text += `,"by":${known(by)}`;
  if (outcome !== undefined) text += `,"outcome":${known(outcome)}`;
  if (reason !== undefined) text += `,"reason":${JSON.stringify(reason)}`;
  if (ms !== undefined) text += `,"ms":${JSON.stringify(ms)}`;
  if (trace !== undefined) text += `,"trace":${unique(trace)}`;
  return `${text},"requestId":${unique(requestId)}}`;
}

const MOST_KNOWN = 1_000;
const quoted = new Map<string, string>();

/** A text that many records have. Clients choose some of them, so their number is bounded. */
function known(text: string): string {
  let found = quoted.get(text);
  if (found === undefined) {
    found = JSON.stringify(text);
    if (quoted.size < MOST_KNOWN) quoted.set(text, found);
  }
  return found;
}

/** Texts that JSON quotes and does not change. */
const PLAIN = /^[\w:.-]{1,100}$/;

/** A text that one record has. */
const unique = (text: string): string => (PLAIN.test(text) ? `"${text}"` : JSON.stringify(text));
