/** Runs the hooks of one plugin: within its time, without harm to other calls, and with its policy for failures. */
import { within } from '../core/timing.js';
import { ProtocolError } from '../protocol/errors.js';
import type { Log } from '../telemetry/log.js';
import { ThrottledLog } from '../telemetry/throttled-log.js';
import { HOOKS, type Hook, type JsonObject, type Plugin } from './api.js';
import type { CallView, HookCall } from './call-view.js';
import { InvalidAnswer } from './decisions.js';
import { type FailureKind, HookFailure, placeOf } from './hook-failure.js';
import type { Scope } from './scope.js';
import type { ThreadEnd, ThreadPlugin } from './thread-plugin.js';

export interface ActivePluginOptions {
  readonly name: string;
  readonly plugin: Plugin;
  /** The hooks that the configuration uses; undefined for all hooks of the plugin. */
  readonly hooks?: readonly Hook[] | undefined;
  readonly scope: Scope;
  /** `closed`: the call fails if the plugin does. `open`: the call goes on as if the plugin were not there. */
  readonly onFailure: 'closed' | 'open';
  /** Time limit for one run of a hook, in milliseconds. */
  readonly timeout: number;
  /** Where the code of the plugin runs; undefined for code that cannot block: shipped plugins, HTTP. */
  readonly thread?: Pick<ThreadPlugin, 'watch' | 'turned' | 'abandon'> | undefined;
  readonly log: Log;
}

/** The longest wait for a thread that stands still when the time of a hook is over, in milliseconds. */
const STANDING = 5_000;

const PROBLEMS: Readonly<Record<FailureKind, string>> = {
  threw: 'failed',
  timeout: 'did not answer in time',
  blocked: 'blocked its event loop and was disabled',
  ended: 'ended its thread and was disabled',
  invalid: 'gave an invalid answer',
  busy: 'has too many runs at the same time',
  disabled: 'is disabled',
};

const CAUSES: Readonly<Record<ThreadEnd['cause'], string>> = {
  blocked: 'it blocked its event loop',
  memory: 'its memory was full',
  ended: 'its code ended its thread',
};

/** Runs at the same time. */
const MOST_RUNNING = 1_000;
/** Events of one call in a row for which an open plugin takes too long. It gets no further events of the call. */
const MOST_LATE_EVENTS = 3;
/** A timer that is this late says more about the event loop than about the hook. */
const LATE = 100;

export class ActivePlugin {
  readonly name: string;
  readonly plugin: Plugin;
  readonly scope: Scope;
  readonly onFailure: 'closed' | 'open';
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
      if (this.onFailure === 'open') {
        if (hook === 'onEvent' && kind === 'timeout') this.late.set(view, (this.late.get(view) ?? 0) + 1);
        return undefined;
      }
      throw new ProtocolError('plugin_failed', `The plugin "${this.name}" ${PROBLEMS[kind]}`, {
        outcome,
        data: { plugin: this.name, problem: kind },
      });
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
    const began = performance.now();
    this.running += 1;
    try {
      const answer = invoke();
      // A hook beyond its time no longer counts, so that hooks that hang for one caller do not stop the plugin for others.
      return answer instanceof Promise ? await this.inTime(answer) : answer;
    } finally {
      this.running -= 1;
      this.measured(hook, began);
    }
  }

  private inTime(answer: Promise<unknown>): Promise<unknown> {
    const { timeout, thread } = this.options;
    return new Promise((resolve, reject) => {
      const late = async (): Promise<void> => {
        // A thread that stands still cannot answer: it turns soon, or it is blocked and ends.
        if (thread) await within(thread.turned(), STANDING, { ref: false });
        reject(new HookFailure('timeout'));
        thread?.abandon(answer);
      };
      const wait = (milliseconds: number, again: boolean): NodeJS.Timeout => {
        const due = performance.now() + milliseconds;
        return setTimeout(() => {
          if (again && performance.now() - due > LATE) timer = wait(LATE, false);
          else void late();
        }, milliseconds);
      };
      let timer = wait(timeout, true);
      answer.then(resolve, reject).finally(() => clearTimeout(timer));
    });
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
