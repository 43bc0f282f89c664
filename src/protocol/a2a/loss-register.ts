/**
 * The loss register: the members that a round trip from 1.0 through an older version and back loses. All other members
 * survive; a test checks both directions of this claim.
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
  /** The member that is lost or changed; `*` for members that the model does not name. */
  readonly member: string;
  /** The case in which the member is lost, if it is not lost in every case. */
  readonly when?: 'text or data' | 'zero';
  readonly why: string;
}

const loss = (noun: Noun, members: readonly string[], why: string, when?: Loss['when']): Loss[] =>
  members.map((member) => ({ noun, member, why, ...(when && { when }) }));

/** Losses toward 0.3 by its JSON Schema, and toward 0.2. */
const OLD: readonly Loss[] = [
  ...loss('request', ['tenant'], 'before 1.0 the interface URL implies the tenant'),
  ...loss('push', ['tenant'], 'before 1.0 the interface URL implies the tenant'),
  ...loss('interface', ['tenant'], 'before 1.0 the interface URL implies the tenant'),
  ...loss('flows', ['deviceCode'], 'new in 1.0'),
  ...loss('flow', ['pkceRequired'], 'new in 1.0'),
  ...loss('card', ['signatures'], 'a signature is valid for one form of a card only'),
  ...loss('card', ['supportedInterfaces'], 'a card lists interfaces of its own version only'),
];

/** Losses toward the 0.3.0 proto. Its readers refuse members that the proto does not define. */
const PROTO: readonly Loss[] = [
  ...OLD,
  ...loss('message', ['referenceTaskIds'], 'no field in the proto'),
  ...loss('part', ['metadata', 'filename'], 'no field in the proto'),
  ...loss('part', ['mediaType'], 'in the proto only files have one', 'text or data'),
  ...loss('configuration', ['historyLength'], 'the proto writes an absent value as zero', 'zero'),
  ...loss('cancel', ['metadata'], 'no field in the proto'),
  ...loss('card', ['iconUrl'], 'no field in the proto'),
  ...(['request', 'configuration', 'push', 'message', 'part', 'artifact', 'task'] as const).flatMap((noun) =>
    loss(noun, ['*'], 'readers of the proto refuse unknown members'),
  ),
  ...loss('statusUpdate', ['*'], 'readers of the proto refuse unknown members'),
  ...loss('artifactUpdate', ['*'], 'readers of the proto refuse unknown members'),
];

/** Losses toward 0.2, in addition to those toward 0.3. */
const OLDER: readonly Loss[] = [
  ...OLD,
  ...loss('interface', ['protocolVersion'], 'a card names one version for all its interfaces'),
  ...loss('skill', ['securityRequirements'], 'before 0.3 skills have no security requirements'),
  ...loss('securityScheme', ['mtlsSecurityScheme'], 'new in 0.3'),
  ...loss('oauth2', ['oauth2MetadataUrl'], 'new in 0.3'),
];

/**
 * Losses toward 0.1. Direct messages return as tasks. The states rejected and auth-required are restored from a note in
 * the metadata.
 */
const OLDEST: readonly Loss[] = [
  ...loss('request', ['tenant'], 'before 1.0 the interface URL implies the tenant'),
  ...loss('push', ['tenant', 'id'], 'a task has one configuration, without an id'),
  ...loss('configuration', ['returnImmediately', '*'], 'no such member in 0.1'),
  ...loss('message', ['messageId', 'contextId', 'taskId', 'referenceTaskIds', 'extensions'], 'no such member in 0.1'),
  ...loss('artifact', ['artifactId', 'extensions'], 'artifacts have numbers, and no extensions'),
  ...loss('statusUpdate', ['contextId'], 'events do not name their session'),
  ...loss('artifactUpdate', ['contextId'], 'events do not name their session'),
  ...loss(
    'card',
    ['supportedInterfaces', 'securitySchemes', 'securityRequirements', 'capabilities', 'signatures', 'iconUrl', '*'],
    'a card of 0.1 has one URL, names of schemes, and three capabilities',
  ),
  ...loss('skill', ['securityRequirements'], 'before 0.3 skills have no security requirements'),
];

export const LOSSES: Readonly<Record<Exclude<DialectId, '1.0'>, readonly Loss[]>> = {
  '0.3': OLD,
  '0.3-proto': PROTO,
  '0.2': OLDER,
  '0.1': OLDEST,
};

/**
 * The other direction: the members that a round trip from 0.3 through 1.0 and back changes. Client ids and artifact
 * numbers of 0.1 survive.
 */
export const LOSSES_FROM_0_3: readonly Loss[] = [
  ...loss('statusUpdate', ['final'], '1.0 has no `final`; a round trip sets `final` on the last event only'),
  ...loss('push', ['authentication'], 'only the first usable scheme remains'),
  ...loss('configuration', ['blocking'], 'an absent value and true mean the same'),
  ...loss('task', ['status'], 'timestamps without a zone become UTC'),
  ...loss('card', ['capabilities', 'signatures'], '1.0 removed stateTransitionHistory'),
];
