/** Runs the hooks of one plugin: within its time, without harm to other calls, and with its policy for failures. */
import type { Log } from '../telemetry/log.js';
import { ThrottledLog } from '../telemetry/throttled-log.js';
import { HOOKS, type Hook, type JsonObject, type Plugin } from './api.js';
import type { CallView, HookCall } from './call-view.js';
import { type FailurePolicy, failCallIfClosed, PROBLEMS } from './failure-policy.js';
import { InvalidAnswer } from './hook-answers.js';
import { type FailureKind, HookFailure, placeOf } from './hook-errors.js';
import { withinTimeLimit } from './hook-time-limit.js';
import type { Scope } from './scope.js';
import type { ThreadEnd, ThreadPlugin } from './thread/gateway-side.js';

export interface ActivePluginOptions {
  readonly name: string;
  readonly plugin: Plugin;
  /** The hooks that the configuration uses; undefined for all hooks of the plugin. */
  readonly hooks?: readonly Hook[] | undefined;
  readonly scope: Scope;
  readonly onFailure: FailurePolicy;
  /** Time limit for one run of a hook, in milliseconds. */
  readonly timeout: number;
  /** Where the code of the plugin runs; undefined for code that cannot block: shipped plugins, HTTP. */
  readonly thread?: Pick<ThreadPlugin, 'watch' | 'turned' | 'abandon'> | undefined;
  readonly log: Log;
}

const CAUSES: Readonly<Record<ThreadEnd['cause'], string>> = {
  blocked: 'it blocked its event loop',
  memory: 'its memory was full',
  ended: 'its code ended its thread',
};

/** Runs at the same time. */
const MOST_RUNNING = 1_000;
/** Events of one call in a row for which an open plugin takes too long. It gets no further events of the call. */
const MOST_LATE_EVENTS = 3;

export class ActivePlugin {
  readonly name: string;
  readonly plugin: Plugin;
  readonly scope: Scope;
  readonly onFailure: FailurePolicy;
  readonly hooks: ReadonlySet<Hook>;
  /** Runs by hook and outcome, and the seconds that they took, for metrics. */
  readonly runs = new Map<string, number>();
  readonly seconds = new Map<Hook, number>();
  /** Events of a call in a row for which the plugin took too long. */
  private readonly late = new WeakMap<CallView, number>();
  private off = false;
  private running = 0;
  private readonly log: ThrottledLog;

  constructor(private readonly options: ActivePluginOptions) {
    const { name, plugin, scope, onFailure, hooks, thread, log } = options;
    this.name = name;
    this.plugin = plugin;
    this.scope = scope;
    this.onFailure = onFailure;
    this.hooks = new Set(HOOKS.filter((hook) => plugin[hook] !== undefined && (hooks?.includes(hook) ?? true)));
    this.log = new ThrottledLog(log);
    thread?.watch({ ended: (end) => this.disable(end), detached: (facts) => this.detached(facts) });
  }

  get disabled(): boolean {
    return this.off;
  }

  /**
   * Runs one hook for a call. Returns undefined if the plugin decides nothing, or fails and is open. Throws `plugin_failed`
   * if it fails and is closed; `outcome` says whether the call may have run by then.
   */
  async run<T>(
    hook: Hook,
    view: CallView,
    invoke: (call: HookCall) => unknown,
    read: (answer: unknown) => T | undefined,
    outcome: 'not_executed' | 'unknown' = 'not_executed',
  ): Promise<T | undefined> {
    if (hook === 'onEvent' && (this.late.get(view) ?? 0) >= MOST_LATE_EVENTS) return undefined;
    const call = view.forHook();
    try {
      const decision = read(await this.timed(hook, () => invoke(call)));
      this.count(hook, 'ok');
      if (hook === 'onEvent') this.late.delete(view);
      return decision;
    } catch (error) {
      const kind = this.failed(hook, error);
      failCallIfClosed(this, kind, outcome);
      if (hook === 'onEvent' && kind === 'timeout') this.late.set(view, (this.late.get(view) ?? 0) + 1);
      return undefined;
    } finally {
      call.end();
    }
  }

  /** Passes a record of the audit trail on. Nothing waits for it. */
  audit(record: JsonObject): void {
    this.timed('onAudit', () => this.plugin.onAudit?.(record)).then(
      () => this.count('onAudit', 'ok'),
      (error: unknown) => void this.failed('onAudit', error),
    );
  }

  /** The plugin failed outside of its hooks: in a callback, or in a promise that no hook returned. */
  private detached(facts: object): void {
    this.log.error(
      'detached',
      { event: 'plugin.failed', plugin: this.name, problem: 'threw', ...facts },
      'a plugin failed outside of its hooks',
    );
  }

  private disable({ cause, blockedMs }: ThreadEnd): void {
    this.off = true;
    const fields = { event: 'plugin.disabled', plugin: this.name, cause, onFailure: this.onFailure };
    this.log.error(
      'disabled',
      { ...fields, ...(blockedMs !== undefined && { blockedMs }) },
      `disabled a plugin because ${CAUSES[cause]}; correct it and restart the gateway`,
    );
  }

  private async timed(hook: Hook, invoke: () => unknown): Promise<unknown> {
    if (this.off) throw new HookFailure('disabled');
    if (this.running >= MOST_RUNNING) throw new HookFailure('busy');
    const { timeout, thread } = this.options;
    const began = performance.now();
    this.running += 1;
    try {
      const answer = invoke();
      // A hook beyond its time no longer counts, so that hooks that hang for one caller do not stop the plugin for others.
      return answer instanceof Promise ? await withinTimeLimit(answer, timeout, thread) : answer;
    } finally {
      this.running -= 1;
      this.measured(hook, began);
    }
  }

  private measured(hook: Hook, began: number): void {
    this.seconds.set(hook, (this.seconds.get(hook) ?? 0) + (performance.now() - began) / 1_000);
  }

  private count(hook: Hook, outcome: string): void {
    const key = `${hook} ${outcome}`;
    this.runs.set(key, (this.runs.get(key) ?? 0) + 1);
  }

  /** Counts and logs a failure. The message of an error may contain parts of the call, so the log has its place only. */
  private failed(hook: Hook, error: unknown): FailureKind {
    const kind = error instanceof HookFailure ? error.kind : error instanceof InvalidAnswer ? 'invalid' : 'threw';
    this.count(hook, kind);
    const fields = {
      event: 'plugin.failed',
      plugin: this.name,
      hook,
      problem: kind,
      onFailure: this.onFailure,
      ...(kind === 'invalid' && { detail: (error as InvalidAnswer).message }),
      ...(kind === 'threw' && placeOf(error)),
    };
    this.log.warn(`${hook} ${kind}`, fields, `a plugin ${PROBLEMS[kind]}`);
    return kind;
  }
}
