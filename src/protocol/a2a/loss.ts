/**
 * The loss register: what a round trip from 1.0 through an older version and back does not bring home. Whatever is not
 * listed here does come home; a test holds the dialects to both.
 */
import type { DialectId } from './dialect.js';

export type Noun =
  | 'request'
  | 'configuration'
  | 'push'
  | 'message'
  | 'part'
  | 'artifact'
  | 'task'
  | 'statusUpdate'
  | 'artifactUpdate'
  | 'cancel'
  | 'card'
  | 'interface'
  | 'skill'
  | 'securityScheme'
  | 'oauth2'
  | 'flows'
  | 'flow';

export interface Loss {
  readonly noun: Noun;
  /** The member that is lost, or comes back as another; `*` for members that the model does not name. */
  readonly member: string;
  /** Where it is lost in some cases only: in which. */
  readonly when?: 'text or data' | 'zero';
  readonly why: string;
}

const loss = (noun: Noun, members: readonly string[], why: string, when?: Loss['when']): Loss[] =>
  members.map((member) => ({ noun, member, why, ...(when && { when }) }));

/** Toward 0.3 by its JSON Schema, and 0.2. */
const OLD: readonly Loss[] = [
  ...loss('request', ['tenant'], 'an interface stands for its tenant before 1.0'),
  ...loss('push', ['tenant'], 'an interface stands for its tenant before 1.0'),
  ...loss('interface', ['tenant'], 'an interface stands for its tenant before 1.0'),
  ...loss('flows', ['deviceCode'], 'came with 1.0'),
  ...loss('flow', ['pkceRequired'], 'came with 1.0'),
  ...loss('card', ['signatures'], 'a signature is over one shape of a card'),
  ...loss('card', ['supportedInterfaces'], 'a card names the interfaces of its own version only'),
];

/** Toward the 0.3.0 proto, which is stricter still: its readers refuse members that it does not have. */
const PROTO: readonly Loss[] = [
  ...OLD,
  ...loss('message', ['referenceTaskIds'], 'no field in the proto'),
  ...loss('part', ['metadata', 'filename'], 'no field in the proto'),
  ...loss('part', ['mediaType'], 'only files have one in the proto', 'text or data'),
  ...loss('configuration', ['historyLength'], 'zero is how the proto says nothing', 'zero'),
  ...loss('cancel', ['metadata'], 'no field in the proto'),
  ...loss('card', ['iconUrl'], 'no field in the proto'),
  ...(['request', 'configuration', 'push', 'message', 'part', 'artifact', 'task'] as const).flatMap((noun) =>
    loss(noun, ['*'], 'readers of the proto refuse what it does not have'),
  ),
  ...loss('statusUpdate', ['*'], 'readers of the proto refuse what it does not have'),
  ...loss('artifactUpdate', ['*'], 'readers of the proto refuse what it does not have'),
];

/** Toward 0.2, beside what 0.3 loses. */
const OLDER: readonly Loss[] = [
  ...OLD,
  ...loss('interface', ['protocolVersion'], 'a card names one version for all of its interfaces'),
  ...loss('skill', ['securityRequirements'], 'skills have no security of their own before 0.3'),
  ...loss('securityScheme', ['mtlsSecurityScheme'], 'came with 0.3'),
  ...loss('oauth2', ['oauth2MetadataUrl'], 'came with 0.3'),
];

/** Toward 0.1. Direct messages come back as tasks; rejected and auth-required come back by a note in the metadata. */
const OLDEST: readonly Loss[] = [
  ...loss('request', ['tenant'], 'an interface stands for its tenant before 1.0'),
  ...loss('push', ['tenant', 'id'], 'a task has one configuration, without an id'),
  ...loss('configuration', ['returnImmediately', '*'], 'no place in 0.1'),
  ...loss('message', ['messageId', 'contextId', 'taskId', 'referenceTaskIds', 'extensions'], 'no place in 0.1'),
  ...loss('artifact', ['artifactId', 'extensions'], 'artifacts have numbers, and no extensions'),
  ...loss('statusUpdate', ['contextId'], 'events do not name their session'),
  ...loss('artifactUpdate', ['contextId'], 'events do not name their session'),
  ...loss(
    'card',
    ['supportedInterfaces', 'securitySchemes', 'securityRequirements', 'capabilities', 'signatures', 'iconUrl', '*'],
    'a card of 0.1 has one URL, names of schemes, and three capabilities',
  ),
  ...loss('skill', ['securityRequirements'], 'skills have no security of their own before 0.3'),
];

export const LOSSES: Readonly<Record<Exclude<DialectId, '1.0'>, readonly Loss[]>> = {
  '0.3': OLD,
  '0.3-proto': PROTO,
  '0.2': OLDER,
  '0.1': OLDEST,
};

/** The other way: what a round trip from 0.3 through 1.0 and back changes. Client ids and artifact numbers of 0.1 are kept. */
export const LOSSES_FROM_0_3: readonly Loss[] = [
  ...loss('statusUpdate', ['final'], '1.0 ends a stream by ending it; `final` comes back on the last event'),
  ...loss('push', ['authentication'], 'of several schemes the usable one remains'),
  ...loss('configuration', ['blocking'], 'saying nothing and waiting are one thing'),
  ...loss('task', ['status'], 'timestamps without a zone get theirs, which is UTC'),
  ...loss('card', ['capabilities', 'signatures'], 'stateTransitionHistory went with 1.0'),
];
