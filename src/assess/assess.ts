/** Assesses one target: detects its protocols, runs the probes, and makes the report. */
import type { StdioCommand } from '../outbound/stdio/child-process.js';
import { methodsOf } from '../protocol/mcp/methods.js';
import { REVISIONS, type Revision, revisionOf } from '../protocol/mcp/revisions/index.js';
import { methodsOf as a2aMethodsOf, a2aSurfaces, detectA2a } from './a2a/assess-a2a.js';
import { A2A_REQUIREMENTS } from './a2a/requirements.js';
import { mcpSurfaces, surfaceNames } from './mcp/assess-mcp.js';
import type { Channel } from './mcp/channel-peer.js';
import { type Detected, detectChannel, detectHttp } from './mcp/detect.js';
import { MCP_REQUIREMENTS } from './mcp/requirements.js';
import type { Profile } from './profiles.js';
import { changesSince, type Report, type ReportedCheck, type Section } from './report/model.js';
import { type Check, PRIORITIES, type ProgressListener, run } from './run.js';
import { gradeOf, scoreOf } from './score.js';
import { specifications, specLink } from './spec-link.js';
import { quoted, secretsOf } from './wire/evidence.js';
import { type GrpcDialer, grpcDialer } from './wire/grpc-wire.js';
import { HttpWire, type WireClient } from './wire/http-wire.js';
import { OutOfTime, Pace, type PaceOptions } from './wire/pace.js';
import type { Reply } from './wire/reply.js';
import { stdioChannel } from './wire/stdio-channel.js';
import { WebSocketDialer } from './wire/websocket-channel.js';

export type Target =
  /** `http:` and `https:`, or `ws:` and `wss:` for MCP over WebSocket. */
  | { readonly kind: 'url'; readonly url: URL }
  /** `name` is shown instead of the command line. */
  | { readonly kind: 'command'; readonly command: StdioCommand; readonly name?: string }
  /** Lines to a server in this process. */
  | { readonly kind: 'channel'; readonly name: string; readonly open: () => Channel };

export interface AssessOptions {
  readonly tool: string;
  readonly target: Target;
  readonly profile: Profile;
  /** Headers with credentials; sent to the origin of the target only. */
  readonly credentials?: readonly (readonly [string, string])[];
  readonly active?: boolean;
  /** The dates of the revisions to examine. Default: all that the target speaks. */
  readonly revisions?: readonly string[] | undefined;
  readonly pace?: Partial<PaceOptions>;
  /** Replaces the connection, for servers in this process. */
  readonly client?: WireClient | undefined;
  /** Replaces the connections of gRPC. */
  readonly grpc?: GrpcDialer | undefined;
  readonly progress?: ProgressListener | undefined;
  /** An earlier report, to show the changes. */
  readonly before?: Report | undefined;
}

/** The dates that `revisions` may have. */
export const REVISION_DATES: readonly string[] = REVISIONS.map(({ date }) => date);

const PACE: PaceOptions = { interval: 20, answer: 5_000, total: 300_000 };

export async function assess(options: AssessOptions): Promise<Report> {
  const started = new Date();
  const pace = new Pace({ ...PACE, ...options.pace });
  const notes: string[] = [];
  const sections: Section[] = [];
  const mcp = await detectMcp(options, pace, notes);
  if (mcp !== undefined && mcp.targets.length > 0) sections.push(await mcpSection(options, mcp, notes));
  const a2a = await a2aSection(options, pace, notes, sections.length === 0);
  if (a2a !== undefined) sections.push(a2a);
  if (sections.length > 0) notes.splice(0, notes.length, ...notes.filter((note) => !note.startsWith(NO_MCP)));
  else if (mcp?.locked === undefined) notes.push('Neither an MCP server nor an A2A agent was recognised.');
  // A protocol without an applicable requirement of the profile has no score.
  const graded = sections.filter(({ categories }) => categories.some(({ applicable }) => applicable > 0));
  const score = graded.length === 0 ? 0 : average(graded.map((section) => section.score));
  for (const { protocol } of sections.filter((section) => !graded.includes(section)))
    notes.push(`No requirement of the profile ${options.profile.name} applies to the ${protocol} surfaces: no score.`);
  return {
    format: 1,
    tool: options.tool,
    target: nameOf(options.target),
    profile: options.profile.name,
    active: options.active === true,
    score,
    grade: gradeOf(score),
    complete: graded.length > 0 && sections.every(({ complete }) => complete),
    sections,
    notes: notes.map((note) => quoted(note, secretsOfTarget(options))),
    changes: options.before === undefined ? null : changesSince(options.before, sections),
    times: {
      started: started.toISOString(),
      milliseconds: Date.now() - started.getTime(),
      requests: pace.requests,
    },
  };
}

const average = (values: readonly number[]): number =>
  Math.round((10 * values.reduce((sum, value) => sum + value, 0)) / values.length) / 10;

/** The target in reports: without a query, which may hold secrets. */
export function nameOf(target: Target): string {
  switch (target.kind) {
    case 'url':
      return `${target.url.origin}${target.url.pathname}`;
    case 'command':
      return target.name ?? [target.command.command, ...(target.command.args ?? [])].join(' ');
    case 'channel':
      return target.name;
  }
}

function secretsOfTarget({ target, credentials }: Pick<AssessOptions, 'target' | 'credentials'>): string[] {
  if (target.kind === 'command') return Object.values(target.command.env ?? {});
  return secretsOf(credentials, target.kind === 'url' ? target.url : undefined);
}

async function detectMcp(
  { target, credentials = [], revisions, client }: AssessOptions,
  pace: Pace,
  notes: string[],
): Promise<Detected | undefined> {
  const chosen = revisions?.map(revisionOf);
  const wanted = (revision: Revision): boolean => chosen === undefined || chosen.includes(revision);
  const detect = (): Promise<Detected> => {
    if (target.kind === 'channel') return detectChannel(target.open, pace, wanted);
    if (target.kind === 'command') return detectChannel(() => stdioChannel(target.command), pace, wanted);
    const { url } = target;
    if (!isWebSocket(url)) return detectHttp(() => new HttpWire({ pace, url, credentials, client }), wanted);
    const dialer = new WebSocketDialer({ pace, url, credentials });
    return detectChannel(() => dialer.open(), pace, wanted);
  };
  try {
    const found = await detect();
    if (found.locked) notes.push('The server needs a token. Give one with --auth to examine the rest.');
    if (found.targets.length === 0) notes.push(...found.refusals.slice(0, 3).map(refusal));
    return found;
  } catch (error) {
    if (!(error instanceof OutOfTime)) throw error;
    notes.push(`Not recognised as an MCP server: ${error.message}.`);
    return undefined;
  }
}

const isWebSocket = ({ protocol }: URL): boolean => protocol === 'ws:' || protocol === 'wss:';

const NO_MCP = 'No MCP';

const endedEarly = (why = 'the time was over'): string =>
  `The assessment ended before every requirement was checked: ${why}.`;

const refusal = ({ method, status, code, failure }: Reply): string =>
  `${NO_MCP}: ${method === '' ? 'GET' : method} got ${failure ?? [status, code].filter((each) => each !== undefined).join(' with ')}`;

async function mcpSection(options: AssessOptions, detected: Detected, notes: string[]): Promise<Section> {
  const categories = options.profile.categories.MCP;
  const requirements = MCP_REQUIREMENTS.filter((row) => categories.some(({ has }) => has(row)));
  const spoken = detected.targets.map(({ revision }) => revision);
  const methods: Record<string, boolean | null> = {};
  for (const method of spoken.flatMap(methodsOf)) methods[method] = null;
  const surfaces = mcpSurfaces(detected, {
    active: options.active === true,
    credentials: (options.credentials ?? []).length > 0,
    methods,
  });
  const { checks, complete, ended } = await run({ requirements, surfaces, progress: options.progress });
  if (!complete) notes.push(endedEarly(ended));
  const versions = spoken.map(({ date }) => date);
  const { profile } = options;
  const secrets = secretsOfTarget(options);
  return sectionOf({
    protocol: 'MCP',
    surfaces: surfaceNames(detected),
    versions,
    checks,
    profile,
    methods,
    complete,
    secrets,
  });
}

async function a2aSection(
  options: AssessOptions,
  pace: Pace,
  notes: string[],
  atRoot: boolean,
): Promise<Section | undefined> {
  const { target, credentials = [], client, profile, active = false, progress, grpc = grpcDialer() } = options;
  const categories = profile.categories.A2A;
  if (target.kind !== 'url' || isWebSocket(target.url) || categories.length === 0) return undefined;
  const http = new HttpWire({ pace, url: target.url, credentials, client });
  try {
    const targets = await detectA2a(http, atRoot);
    if (targets.length === 0) return undefined;
    const requirements = A2A_REQUIREMENTS.filter((row) => categories.some(({ has }) => has(row)));
    const methods: Record<string, boolean | null> = {};
    for (const method of a2aMethodsOf(targets)) methods[method] = null;
    const surfaces = a2aSurfaces(targets, { http, active, credentials, grpc, methods });
    const { checks, complete, ended } = await run({ requirements, surfaces, progress });
    if (!complete) notes.push(endedEarly(ended));
    return sectionOf({
      protocol: 'A2A',
      surfaces: targets.map(({ name }) => name),
      versions: targets.map(({ version }) => version),
      ...{ checks, profile, methods, complete, secrets: http.secrets },
    });
  } catch (error) {
    if (!(error instanceof OutOfTime)) throw error;
    return undefined;
  }
}

export interface SectionOptions extends Pick<Section, 'protocol' | 'surfaces' | 'methods' | 'complete'> {
  readonly versions: readonly string[];
  readonly checks: readonly Check[];
  readonly profile: Profile;
  /** Values that reasons must not show. */
  readonly secrets?: readonly string[];
}

export function sectionOf(options: SectionOptions): Section {
  const { protocol, surfaces, versions, checks, profile, methods, complete, secrets = [] } = options;
  const categories = profile.categories[protocol];
  const shown = checks.map((check) =>
    reported(check, secrets, categories.find(({ has }) => has(check.requirement))?.name),
  );
  const sorted = Object.fromEntries(Object.entries(methods).sort(([a], [b]) => (a < b ? -1 : 1)));
  return {
    ...{ protocol, surfaces, ...scoreOf(checks, categories), checks: shown },
    specifications: specifications(protocol, versions),
    ...{ methods: sorted, complete },
  };
}

function reported({ requirement, outcome, verdicts }: Check, secrets: readonly string[], category = ''): ReportedCheck {
  const { id, level, text, fix, unobservable } = requirement;
  const own = verdicts.filter(({ verdict }) => verdict.outcome === outcome);
  const [first] = own;
  const verdict = first?.verdict;
  return {
    id,
    level,
    category,
    text,
    spec: specLink(requirement),
    outcome,
    priority: PRIORITIES[level],
    reason:
      unobservable ??
      (verdict === undefined
        ? noSurface(outcome)
        : verdict.outcome === 'pass'
          ? null
          : quoted(verdict.reason, secrets)),
    surfaces: own.map(({ surface }) => surface),
    fix: outcome === 'fail' ? fix : null,
    evidence: verdict?.outcome === 'fail' ? verdict.evidence : [],
  };
}

const noSurface = (outcome: string): string | null =>
  outcome === 'skip' ? 'the target has no revision and transport of this requirement' : null;
