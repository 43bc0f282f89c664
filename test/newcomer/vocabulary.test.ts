/** Names describe their content in the words of the field. Names of the older vocabulary must not be used again. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { withoutComments, withoutStrings } from '../../scripts/source-text.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SELF = 'test/newcomer/vocabulary.test.ts';

/** Identifiers, with the word to use instead. */
const IDENTIFIERS: Readonly<Record<string, string>> = {
  House: 'Testbed, or the name of the class that is meant',
  Agency: 'A2aRuntime',
  Hall: 'AgentDispatcher',
  Wakes: 'Wakeups',
  Mailbox: 'ReplicaMessages',
  Letter: 'Message',
  Mourner: 'Membership',
  Front: 'AgentRouter',
  FrontDesk: 'RoutingAgent',
  FRONT_DESK: 'ROUTING_AGENT',
  Feed: 'TaskLog',
  Feeds: 'TaskLogs',
  ListFeeds: 'ListChanges',
  Follower: 'TaskFollower',
  TailFollower: 'ReplicaFollower',
  Turns: 'MessagePreparer',
  ToolTurns: 'ToolMessageHandler',
  Lookups: 'TaskQueries',
  Sending: 'MessageSender',
  Registered: 'the thing that is registered',
  Visit: 'RequestContext',
  Seat: 'WireOptions',
  Habits: 'VersionBehavior',
  Hop: 'RequestFormat',
  hopOf: 'requestFormatOf',
  HopGuard: 'LoopGuard',
  Flow: 'NotificationLimiter',
  Recent: 'BoundedCache',
  Bucket: 'TokenBucket',
  Seldom: 'ThrottledLog',
  Knowledge: 'CardCache',
  Speakers: 'SessionCallers',
  Watching: 'SessionWatch',
  Moved: 'SlashRedirects',
  Grace: 'ReplyEndTimer',
  Absence: 'ReconnectWindow',
  Outlet: 'ReplyChannel',
  ModernPipe: 'ModernStdio',
  Surroundings: 'Options',
  Catalogue: 'Catalog',
  clientMintsIds: 'clientChoosesTaskIds',
  isMisfit: 'mayTryNextInterface',
  ownCall: 'gatewayCall',
  unlessCancelled: 'rejectOnCancel',
  firstContact: 'probeVersion',
  FoundingVariable: 'OtherGatewayVariable',
};

/**
 * Endings of identifiers, with the ending to use instead. `Parts` after a lower-case word stands for parts of a message
 * and is allowed.
 */
const ENDINGS: readonly (readonly [RegExp, string])[] = [
  [/\b[A-Z]\w*Parts\b/g, 'Options for constructor arguments'],
  [/\b\w*(?:Door|Outlet)s?(?:Options)?\b/g, 'Endpoint, or ReplyChannel'],
];

/** Names of files and folders, without their endings. */
const FILES: ReadonlySet<string> = new Set(
  `absence answered ask assumed bucket catalogue doors feed feeds first-contact flow fold follow front front-desk grace habits
   hall hop hops house http-outlets knowledge list-feed lookups mailbox minting misfit modern-pipe outlet own-call passing phrases
   project recent seldom sending served speakers turn turns unless-cancelled url-visits visit waiting wakes watching`.split(
    /\s+/,
  ),
);

const files = ['src', 'test', 'docs'].flatMap((folder) =>
  readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((name) => path.posix.join(folder, name.split(path.sep).join('/')))
    .filter((name) => /\.(ts|mts|mjs|js|md)$/.test(name) && name !== SELF),
);

test('no identifier is of the old vocabulary', () => {
  const found = files
    .filter((name) => !name.endsWith('.md'))
    .flatMap((name) => {
      // Text in quotes may be data, such as the reason phrase of a status line.
      const code = withoutStrings(withoutComments(readFileSync(path.join(ROOT, name), 'utf8')));
      const words = new Set(code.match(/[A-Za-z_$][\w$]*/g));
      const old = Object.entries(IDENTIFIERS).filter(([word]) => words.has(word));
      return [
        ...old.map(([word, better]) => `${name}: ${word} is now ${better}`),
        ...ENDINGS.flatMap(([ending, better]) =>
          [...new Set(code.match(ending))].map((word) => `${name}: ${word} should end in ${better}`),
        ),
      ];
    });
  expect(found).toEqual([]);
});

test('no document names a class of the old vocabulary', () => {
  const found = files
    .filter((name) => name.endsWith('.md'))
    .flatMap((name) => {
      const code = [...readFileSync(path.join(ROOT, name), 'utf8').matchAll(/`[^`\n]+`|```[\s\S]*?```/g)].join('\n');
      const words = new Set(code.match(/[A-Za-z_$][\w$]*/g));
      return Object.keys(IDENTIFIERS).flatMap((word) => (words.has(word) ? [`${name}: ${word}`] : []));
    });
  expect(found).toEqual([]);
});

test('no file or folder has a name of the old vocabulary', () => {
  const old = files.filter((name) => name.split('/').some((part) => FILES.has(part.replace(/\..*$/, ''))));
  expect(old).toEqual([]);
});
