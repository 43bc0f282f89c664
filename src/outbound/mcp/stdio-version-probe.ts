import { within } from '../../core/timing.js';
import { UpstreamRpcError } from '../../protocol/errors.js';
import { type RpcMessage, type RpcResponse, readReplies, writeRequest } from '../../protocol/jsonrpc/message.js';
import { RawObject } from '../../protocol/jsonrpc/raw.js';
import type { Revision } from '../../protocol/mcp/revisions/index.js';
import { type Evidence, readProbe } from '../../protocol/mcp/server-version.js';
import { stampParams } from '../../protocol/mcp/translate/meta.js';
import { nextId } from '../request-ids.js';
import type { Child, ChildEvents } from '../stdio/child-process.js';
import type { ExitInfo } from '../stdio/exit-info.js';
import { StdioError } from '../stdio/stdio-error.js';
import type { Start } from '../stdio/supervisor-types.js';
import { ModernStdio } from './modern-stdio.js';
import type { LegacySession } from './session/legacy-session.js';
import { HandshakeRefused } from './session/session-errors.js';
import { StdioChannel } from './session/stdio-channel.js';
import type { UpstreamContext } from './upstream-context.js';

export interface VersionProbeOptions {
  readonly context: UpstreamContext;
  readonly modernOffer: Revision;
  /** Fires when the time limit of the start is over. */
  readonly signal: AbortSignal;
  /** Does the legacy handshake on a channel. */
  openLegacy(channel: StdioChannel): Promise<LegacySession>;
}

/** The server is modern and supports no version that the gateway supports. */
export class ForeignVersions extends StdioError {
  constructor(readonly evidence: Extract<Evidence, { kind: 'foreign' }>) {
    const problem = `it speaks only protocol versions this gateway does not know: ${evidence.versions.join(', ')}`;
    super('invalid', problem, { summary: problem, unrunnable: true });
  }
}

/**
 * Time to wait for the answer to the probe before the handshake is sent. A server that ignores unknown requests costs
 * this time once. A server that is still starting reads both later, and its answer to the probe counts.
 */
const PROBE_WAIT = 2_000;

/**
 * Detects the era of a new process and keeps the process for the session (mcp.md 5.1, 5.2). Sends `server/discover`
 * first, and the handshake after any answer that is not modern. A process that ends during the probe, or refuses the
 * handshake after it, is started again and gets the handshake first.
 */
export async function probeVersion(start: Start, options: VersionProbeOptions): Promise<ModernStdio | LegacySession> {
  const { context, signal } = options;
  const probe = new EraProbe(start, options);
  try {
    return await probe.session();
  } catch (error) {
    // A program that cannot run ends the same way at a second start.
    if (signal.aborted || (error instanceof StdioError && error.unrunnable)) throw error;
    const why = error instanceof Error ? error.message : String(error);
    context.log.debug(
      { server: context.name, why },
      'restarting a process that ended during the modern probe or refused the handshake after it',
    );
  }
  await probe.stop();
  return handshakeFirst(start, options);
}

/**
 * Opens a session of a new process with the handshake. A modern server that refuses the handshake names its versions.
 * That server is started again and gets modern requests.
 */
export async function handshakeFirst(start: Start, options: VersionProbeOptions): Promise<ModernStdio | LegacySession> {
  const { context, openLegacy } = options;
  try {
    return await openLegacy(new StdioChannel(context, start));
  } catch (error) {
    if (!(error instanceof HandshakeRefused)) throw error;
    const evidence = readProbe({ error }, 'legacy');
    if (evidence.kind === 'legacy' || evidence.kind === 'none') throw error;
    context.log.debug({ server: context.name }, 'restarting a process that is modern and refused the handshake');
    const session = modernSession(evidence, options, start);
    await session.answers(2 * context.timeouts.connect);
    return session;
  }
}

function modernSession(evidence: Evidence, { context, modernOffer }: VersionProbeOptions, start: Start): ModernStdio {
  if (evidence.kind === 'foreign') throw new ForeignVersions(evidence);
  return new ModernStdio(context, evidence.kind === 'modern' ? evidence.revision : modernOffer, start);
}

/** The channel of a handshake. The handshake is withdrawn if the server turns out to be modern. */
class TentativeChannel extends StdioChannel {
  withdrawn = false;

  /** Ends the handshake without stopping the process. */
  withdraw(): void {
    this.withdrawn = true;
    this.events?.closed('the server is modern');
  }

  override async close(): Promise<void> {
    if (!this.withdrawn) await super.close();
  }
}

/** Detects the era of one process. */
class EraProbe implements ChildEvents {
  private readonly id = nextId();
  private readonly child: Child;
  private readonly found: Promise<Evidence>;
  private settle!: (evidence: Evidence) => void;
  private readonly gone: Promise<never>;
  private lose!: (error: unknown) => void;
  private answered = false;
  private ended: ExitInfo | undefined;
  /** Receives the messages of the process other than the answer to the probe. */
  private next: ChildEvents | undefined;
  private tentative: TentativeChannel | undefined;

  constructor(
    start: Start,
    private readonly options: VersionProbeOptions,
  ) {
    this.found = new Promise((resolve) => {
      this.settle = resolve;
    });
    this.gone = new Promise((_, reject) => {
      this.lose = reject;
    });
    this.gone.catch(() => {});
    this.child = start(this, { expendable: true });
  }

  async session(): Promise<ModernStdio | LegacySession> {
    const { context } = this.options;
    try {
      this.ask();
      const first = await within(Promise.race([this.found, this.gone]), PROBE_WAIT);
      if (first && first.kind !== 'legacy') return this.modern(first);
      const channel = new TentativeChannel(context, (events) => this.handOver(events));
      this.tentative = channel;
      const handshake = this.options.openLegacy(channel).catch((error: unknown) => {
        if (channel.withdrawn) return new Promise<never>(() => {});
        throw error;
      });
      handshake.catch(() => {});
      const outcome = await Promise.race([handshake, this.late(handshake), this.gone]);
      return 'kind' in outcome ? this.modern(outcome) : outcome;
    } finally {
      this.answered = true;
    }
  }

  /** Waits for a late answer to the probe during the handshake. A modern answer wins over the handshake. */
  private async late(handshake: Promise<LegacySession>): Promise<Evidence | LegacySession> {
    const evidence = await this.found;
    return evidence.kind === 'legacy' ? handshake : evidence;
  }

  async stop(): Promise<void> {
    await this.child.stop();
  }

  private ask(): void {
    const { modernOffer: revision, context } = this.options;
    const params = stampParams(RawObject.from({}), {
      revision,
      clientInfo: context.clientInfo,
      capabilities: {},
      logLevel: undefined,
      progressToken: undefined,
    });
    this.child.send(writeRequest(this.id, 'server/discover', params));
  }

  private modern(evidence: Evidence): ModernStdio {
    return modernSession(evidence, this.options, (events) => this.handOver(events));
  }

  /** Gives all later messages of the process to `events`. */
  private handOver(events: ChildEvents): Child {
    this.next = events;
    if (this.ended) events.exit(this.ended);
    return this.child;
  }

  message(line: Buffer): void {
    if (this.answered || !this.takes(line)) this.next?.message(line);
  }

  /** Handles the answer to the probe. Returns whether the line was that answer. */
  private takes(line: Buffer): boolean {
    let messages: RpcMessage[];
    try {
      messages = readReplies(line);
    } catch {
      if (!this.next) this.child.countBadLine();
      return false;
    }
    const answer = messages.find(
      (message): message is RpcResponse => message.kind === 'response' && message.id === this.id,
    );
    if (!answer) return false;
    this.answered = true;
    const evidence = read(answer);
    if (evidence.kind !== 'legacy') {
      // Immediately, because the answer to the handshake may follow in the same read.
      this.next = undefined;
      this.tentative?.withdraw();
    }
    this.settle(evidence);
    return true;
  }

  exit(info: ExitInfo): void {
    this.ended = info;
    const { failure } = info;
    const problem = failure?.problem ?? 'it was stopped';
    this.lose(
      new StdioError('exited', problem, {
        exit: info,
        ...(failure && { summary: failure.summary, unrunnable: failure.unrunnable }),
      }),
    );
    this.next?.exit(info);
  }

  drain(): void {
    this.next?.drain?.();
  }
}

function read({ error, result }: RpcResponse): Evidence {
  if (error) return readProbe({ error: new UpstreamRpcError(error.code, error.message, error.data) }, 'legacy');
  return readProbe({ result: result!.value() }, 'legacy');
}
