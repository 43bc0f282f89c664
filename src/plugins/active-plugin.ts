/** Runs the hooks of one plugin: within its time, without harm to other calls, and with its policy for failures. */
import { isPromise } from 'node:util/types';
import { createContext, Script } from 'node:vm';
import { ProtocolError } from '../protocol/errors.js';
import type { Log } from '../telemetry/log.js';
import { ThrottledLog } from '../telemetry/throttled-log.js';
import { HOOKS, type Hook, type JsonObject, type Plugin } from './api.js';
import type { CallView, HookCall } from './call-view.js';
import { InvalidAnswer } from './decisions.js';
import { type LoopWatch, processorTime, type Suspect } from './loop-watch.js';
import { framesOf } from './plugin-module.js';
import type { Scope } from './scope.js';

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
  /** The longest time that a hook may block the event loop, in milliseconds. */
  readonly blockLimit: number;
  /** Watches code that the gateway does not know; undefined for code that cannot block: shipped plugins, HTTP. */
  readonly watch?: LoopWatch | undefined;
  readonly log: Log;
}

export type FailureKind = 'threw' | 'timeout' | 'blocked' | 'invalid' | 'busy' | 'disabled';

const PROBLEMS: Readonly<Record<FailureKind, string>> = {
  threw: 'failed',
  timeout: 'did not answer in time',
  blocked: 'blocked the event loop and was disabled',
  invalid: 'gave an invalid answer',
  busy: 'has too many runs at the same time',
  disabled: 'is disabled because it blocked the event loop',
};

/** Runs at the same time. */
const MOST_RUNNING = 1_000;
/** A plugin is disabled after this many blocks of the event loop that other plugins may have caused too. */
const MOST_SUSPICIONS = 3;
/** Events of one call in a row for which an open plugin takes too long. It gets no further events of the call. */
const MOST_LATE_EVENTS = 3;
/** A timer that is this late says more about the event loop than about the hook. */
const LATE = 100;

/** Processor time of a block, at the least, in milliseconds. */
const USED = 10;

/** Ends a hook that blocks: V8 stops the code of the hook when the time of the script is over. */
const GUARDED = new Script('run()', { filename: 'plugin-hook' });
const GUARD = createContext({ run: undefined as (() => unknown) | undefined });

export class ActivePlugin implements Suspect {
  readonly name: string;
  readonly plugin: Plugin;
  readonly scope: Scope;
  readonly onFailure: 'closed' | 'open';
  readonly blockLimit: number;
  readonly hooks: ReadonlySet<Hook>;
  /** Runs by hook and outcome, and the seconds that they took, for metrics. */
  readonly runs = new Map<string, number>();
  readonly seconds = new Map<Hook, number>();
  /** Events of a call in a row for which the plugin took too long. */
  private readonly late = new WeakMap<CallView, number>();
  private off = false;
  private suspicions = 0;
  private running = 0;
  private readonly log: ThrottledLog;

  constructor(private readonly options: ActivePluginOptions) {
    const { name, plugin, scope, onFailure, blockLimit, hooks, log } = options;
    this.name = name;
    this.plugin = plugin;
    this.scope = scope;
    this.onFailure = onFailure;
    this.blockLimit = blockLimit;
    this.hooks = new Set(HOOKS.filter((hook) => plugin[hook] !== undefined && (hooks?.includes(hook) ?? true)));
    this.log = new ThrottledLog(log);
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
      const { value: answer } = await this.timed(hook, () => invoke(call));
      // Reading runs code of the plugin too if its answer has getters or `toJSON`.
      const decision = isPrimitive(answer) ? read(answer) : this.guarded(() => read(answer));
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
  detached(error: Error): void {
    this.log.error(
      'detached',
      { event: 'plugin.failed', plugin: this.name, problem: 'threw', ...placeOf(error) },
      'a plugin failed outside of its hooks',
    );
  }

  suspected(milliseconds: number, alone: boolean): void {
    this.suspicions += 1;
    if (alone || this.suspicions >= MOST_SUSPICIONS) this.disable(milliseconds);
    else
      this.log.warn(
        'suspected',
        { plugin: this.name, blockedMs: milliseconds },
        'the event loop stood still while several plugins were running',
      );
  }

  private disable(milliseconds: number): void {
    if (this.off) return;
    this.off = true;
    this.log.error(
      'disabled',
      { event: 'plugin.disabled', plugin: this.name, blockedMs: milliseconds, onFailure: this.onFailure },
      'disabled a plugin because it blocked the event loop; correct it and restart the gateway',
    );
  }

  private async timed(hook: Hook, invoke: () => unknown): Promise<Answer> {
    if (this.off) throw new HookFailure('disabled');
    if (this.running >= MOST_RUNNING) throw new HookFailure('busy');
    const began = performance.now();
    this.running += 1;
    const over = (): void => {
      this.running -= 1;
    };
    let answer: Answer | Promise<Answer> | undefined;
    try {
      answer = this.guarded(() => this.answerOf(invoke()));
    } finally {
      if (!(answer instanceof Promise)) {
        over();
        this.measured(hook, began);
      }
    }
    if (!(answer instanceof Promise)) return answer;
    const leave = this.options.watch?.enter(this);
    // A hook beyond its time no longer counts, so that hooks that hang for one caller do not stop the plugin for others.
    return this.inTime(answer).finally(() => {
      over();
      leave?.();
      this.measured(hook, began);
    });
  }

  /**
   * What a hook returned, or a promise of it. Reading and calling `then` runs code of the plugin, so this runs guarded, and
   * no promise of the gateway gets the answer itself: it would read `then` again.
   */
  private answerOf(returned: unknown): Answer | Promise<Answer> {
    if (isPrimitive(returned)) return { value: returned };
    const { then } = returned as { readonly then?: unknown };
    if (typeof then !== 'function') return { value: returned };
    const made = new Promise<Answer>((resolve, reject) => {
      const settle = (value: unknown): void => {
        try {
          resolve(isPrimitive(value) || isPromise(returned) ? { value } : this.guarded(() => this.answerOf(value)));
        } catch (error) {
          reject(error);
        }
      };
      Reflect.apply(then, returned, [settle, reject]);
    });
    // Nobody gets the promise if the hook is stopped now.
    made.catch(() => {});
    return made;
  }

  /** Code of the plugin that ends in one turn: a hook before its first wait. */
  private guarded<T>(invoke: () => T): T {
    const { watch, blockLimit } = this.options;
    if (!watch) return invoke();
    const began = performance.now();
    const used = processorTime();
    GUARD['run'] = invoke;
    try {
      return GUARDED.runInContext(GUARD, { timeout: blockLimit }) as T;
    } catch (error) {
      if ((error as { code?: unknown } | null)?.code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
      // A process that was suspended used no time.
      if (processorTime() - used < USED) throw new HookFailure('timeout');
      this.disable(Math.round(performance.now() - began));
      throw new HookFailure('blocked');
    } finally {
      GUARD['run'] = undefined;
    }
  }

  private inTime(settled: Promise<Answer>): Promise<Answer> {
    const { timeout } = this.options;
    return new Promise((resolve, reject) => {
      const wait = (milliseconds: number, again: boolean): NodeJS.Timeout => {
        const due = performance.now() + milliseconds;
        return setTimeout(() => {
          if (again && performance.now() - due > LATE) timer = wait(LATE, false);
          else reject(new HookFailure('timeout'));
        }, milliseconds);
      };
      let timer = wait(timeout, true);
      settled.then(resolve, reject).finally(() => clearTimeout(timer));
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

/** An answer in an object of the gateway. */
interface Answer {
  readonly value: unknown;
}

class HookFailure extends Error {
  override readonly name = 'HookFailure';

  constructor(readonly kind: FailureKind) {
    super(kind);
  }
}

const isPrimitive = (value: unknown): boolean => typeof value !== 'object' || value === null;

/** The kind of an error, its code, and the place that threw it. A plugin may throw anything, also what cannot be read. */
function placeOf(error: unknown): object {
  try {
    return error instanceof Error ? factsOf(error) : { error: typeof error };
  } catch {
    return { error: 'unreadable' };
  }
}

function factsOf(error: Error): object {
  const { name, code } = error as NodeJS.ErrnoException;
  const at = /^ {4}at (?:.*\()?((?:file|node):[^()\s]+|\/[^()\s]+:\d+:\d+)\)?$/m.exec(framesOf(error))?.[1];
  return {
    error: /^[A-Za-z]{1,40}$/.test(name) ? name : 'Error',
    ...(typeof code === 'string' && /^[A-Z_]{1,40}$/.test(code) && { code }),
    ...(at !== undefined && { at: at.slice(0, 300) }),
  };
}
