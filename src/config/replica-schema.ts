/** The keys for equivalent servers. */
import { httpUrl } from './address-fields.js';
import { duration, flag, list } from './field.js';

export const serverReplicas = {
  replicas: list(httpUrl({ description: 'One URL.' }), {
    description:
      'URLs of equivalent servers, besides `url` or instead of it. Calls go to the replica that answers best; sessions, ' +
      'tasks and subscriptions stay with their replica. All replicas get the credentials of this server.',
  }),
  objective: duration({ description: 'Overrides `routing.objective` for this server.' }),
};

export const replicaRouting = {
  objective: duration({
    default: '1s',
    description:
      'The time that a call should take, for the choice among `replicas` and among agents with equal skills: a call ' +
      'of this duration is worth half of an immediate call.',
  }),
  recordChoices: flag({
    default: true,
    description:
      'Whether a sample of these choices is stored for seven days, for `parley routing replay` and for the next start.',
  }),
};
