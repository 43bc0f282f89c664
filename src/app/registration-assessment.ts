/** Assesses servers and agents before they are registered, as `assess.onRegister` says. */
import { type AssessOptions, assess } from '../assess/assess.js';
import { profileOf } from '../assess/profiles.js';
import { failedChecks, type Report } from '../assess/report/model.js';
import { grpcDialer } from '../assess/wire/grpc-wire.js';
import type { Config } from '../config/schema.js';
import { readRegistration } from '../config/upstream-entry.js';
import type { UpstreamKind } from '../core/upstream-registry.js';
import { type Guard, HttpClient, proxyRuleOf } from '../outbound/http/index.js';
import { ProtocolError } from '../protocol/errors.js';
import type { Log } from '../telemetry/log.js';
import { fixedHeaders, type UpstreamSettings } from './assessed-upstream.js';
import { BUILD } from './product-info.js';

export interface RegistrationAssessmentOptions {
  live(): Config;
  readonly safeHttp: Guard;
  readonly log: Log;
}

/** Limit on the gaps that an error or a log line names. */
const MOST_GAPS = 5;
/** Limit on concurrent assessments, because each sends many requests. */
const MOST_RUNNING = 4;

export class RegistrationAssessment {
  private running = 0;

  constructor(private readonly options: RegistrationAssessmentOptions) {}

  /**
   * Throws `invalid_settings` if `assess.onRegister` refuses the server or agent. `before` are the settings in effect
   * until now.
   */
  async check(kind: UpstreamKind, name: string, given: object, before: object | undefined): Promise<void> {
    const { onRegister, below, time } = this.options.live().assess;
    if (onRegister === 'off') return;
    // Assesses new URLs only, because other settings do not change the server or agent itself.
    const known = before === undefined ? [] : urlsOf(before);
    const added = urlsOf(given).filter((url) => !known.includes(url));
    if (added.length === 0) return;
    const settings = this.read(kind, name, given);
    for (const url of added) {
      const report = await this.assess(settings, new URL(url), time);
      if (report.score < below || !report.complete) this.tell(kind, name, report);
    }
  }

  /** Refuses or logs a low score. */
  private tell(kind: UpstreamKind, name: string, report: Report): void {
    const { onRegister, below } = this.options.live().assess;
    const gaps = gapsOf(report);
    const said = `The ${kind} ${JSON.stringify(name)} has the score ${report.score}, and assess.below is ${below}: ${gaps.join('; ')}`;
    if (onRegister === 'refuse')
      throw new ProtocolError('invalid_settings', said, { data: { score: report.score, below, gaps } });
    this.options.log.warn({ [kind]: name, score: report.score, below, gaps }, 'registered with a low score');
  }

  private read(kind: UpstreamKind, name: string, settings: object): UpstreamSettings {
    const config = { ...this.options.live(), servers: {}, agents: {} };
    return readRegistration(kind === 'server' ? 'servers' : 'agents', name, settings, { config })
      .settings as UpstreamSettings;
  }

  private async assess(settings: UpstreamSettings, url: URL, time: number): Promise<Report> {
    if (this.running >= MOST_RUNNING)
      throw new ProtocolError('overloaded', 'Too many registrations are assessed at the same time; try again later');
    const { safeHttp } = this.options;
    const { egress } = safeHttp;
    const proxy = proxyRuleOf(settings.proxy, safeHttp);
    const client = new HttpClient({
      connectTimeout: time,
      egress,
      proxy,
      tls: settings.tls,
    });
    const options: AssessOptions = {
      tool: `parley ${BUILD}`,
      profile: profileOf('standard')!,
      credentials: await fixedHeaders(settings),
      pace: { interval: 0, total: time },
      grpc: grpcDialer({ egress, proxy }),
      target: { kind: 'url', url },
      client,
    };
    this.running++;
    try {
      return await assess(options);
    } finally {
      this.running--;
      await client.close();
    }
  }
}

/**
 * The URLs of MCP servers and agents. An agent that is made of tools of this gateway has none, and an HTTP API is not
 * an MCP server.
 */
function urlsOf(settings: object): string[] {
  const { url, replicas, openapi } = settings as { url?: unknown; replicas?: unknown; openapi?: unknown };
  if (openapi !== undefined) return [];
  const all = [url, ...(Array.isArray(replicas) ? replicas : [])];
  return all.filter((each) => typeof each === 'string');
}

/** The most important gaps, or the reason why there is no grade. */
function gapsOf({ sections, notes, complete }: Report): string[] {
  const failed = sections.flatMap(failedChecks).map(({ id, text }) => `${id} (${text})`);
  const shown = failed.slice(0, MOST_GAPS);
  if (failed.length > MOST_GAPS) shown.push(`${failed.length - MOST_GAPS} more`);
  return [...shown, ...(sections.length === 0 || !complete ? notes : [])];
}
