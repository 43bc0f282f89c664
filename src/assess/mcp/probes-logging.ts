/** Probes of log messages. */
import { atLeast, isLogLevel } from '../../protocol/mcp/model.js';
import { asObject, isObject, type Json } from '../json.js';
import { expect, skip } from '../requirement.js';
import type { Reply } from '../wire/reply.js';
import { isNotification, observation, type Probe, type Seen, seenBy } from './observed.js';
import { credentialsOf, META } from './peer.js';
import { plainMethod, refusedWith, served } from './probes-base.js';

const NO_LOGS = 'no log message was sent';
const NOT_DECLARED = 'logging is not declared';
const HIGHEST = 'emergency';
/** Shorter values occur in log messages by chance. */
const SHORTEST_SECRET = 8;

const isLog = ({ message }: Seen): boolean => isNotification(message, 'notifications/message');
const logsOf = (reply: Reply): Json[] => reply.messages.filter(isObject).filter((message) => isLog({ message, reply }));

/** A log message below the highest level. */
const isBelow = (log: Json): boolean => {
  const { level } = asObject(log['params']);
  return isLogLevel(level) && !atLeast(level, HIGHEST);
};

export const LOGGING_PROBES: Readonly<Record<string, Probe>> = {
  badLogLevel: async (surface) => {
    if (!surface.declares('logging')) return skip(NOT_DECLARED);
    return refusedWith(await surface.peer.call('logging/setLevel', { level: 'parley' }), -32602);
  },
  setLevel: async (surface) => {
    if (!surface.declares('logging')) return skip(NOT_DECLARED);
    return served(await surface.peer.call('logging/setLevel', { level: 'warning' }), 'logging/setLevel fails');
  },
  badLogLevelMeta: async (surface) => {
    if (!surface.declares('logging')) return skip(NOT_DECLARED);
    return refusedWith(await surface.peer.call(plainMethod(surface), {}, { meta: { [META.level]: 'parley' } }), -32602);
  },
  levelHonoured: async (surface) => {
    if (!surface.declares('logging')) return skip(NOT_DECLARED);
    const [first] = (await surface.calls()).filter(({ reply }) => logsOf(reply).some(isBelow));
    if (first === undefined) return skip('no call led to log messages');
    await surface.peer.call('logging/setLevel', { level: HIGHEST });
    const reply = await surface.peer.call('tools/call', { name: first.tool['name'], arguments: {} });
    await surface.peer.call('logging/setLevel', { level: 'info' });
    return expect(!logsOf(reply).some(isBelow), `a log message below the level ${HIGHEST} was sent`, reply);
  },
  requestedLevel: async (surface) => {
    if (!surface.declares('logging')) return skip(NOT_DECLARED);
    const [tool] = await surface.freeTools();
    if (tool === undefined) return skip('no tool may be called');
    const params = { name: tool['name'], arguments: {} };
    // The messages of the first call are examined with everything else that arrived.
    await surface.peer.call('tools/call', params, { meta: { [META.level]: 'debug' } });
    const reply = await surface.peer.call('tools/call', params, { meta: { [META.level]: HIGHEST } });
    return expect(!logsOf(reply).some(isBelow), `a log message below the level ${HIGHEST} was sent`, reply);
  },
};

export const LOGGING_OBSERVATIONS: Readonly<Record<string, Probe>> = {
  loggingDeclared: observation({
    about: isLog,
    wrong: (_, surface) =>
      surface.declares('logging') ? undefined : 'a log message was sent, but logging is not declared',
    none: NO_LOGS,
  }),
  unrequestedLogs: observation({
    wrong: ({ message, reply }) => {
      if (!isNotification(message, 'notifications/message')) return undefined;
      const meta = asObject(asObject(asObject(reply.sent)['params'])['_meta']);
      return META.level in meta ? undefined : 'a log message was sent to a request without logLevel';
    },
  }),
  logShape: observation({
    about: isLog,
    wrong: ({ message }) => {
      const { level, data } = asObject(message['params']);
      if (!isLogLevel(level)) return `a log message has the level ${JSON.stringify(level)}`;
      return data === undefined ? 'a log message has no data' : undefined;
    },
    none: NO_LOGS,
  }),
  logSecrets: (surface) => {
    const secrets = credentialsOf(surface.peer).filter((each) => each.length >= SHORTEST_SECRET);
    const logs = seenBy(surface).filter(isLog);
    if (logs.length === 0) return skip(NO_LOGS);
    const wrong = logs.find(({ message }) => secrets.some((secret) => JSON.stringify(message).includes(secret)));
    return expect(wrong === undefined, 'a log message repeats the credential of the caller', wrong?.reply);
  },
};
