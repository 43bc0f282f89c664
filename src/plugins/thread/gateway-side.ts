/** A plugin that is a module: its code runs in a thread of its own, and the gateway passes its hooks on. */
import { readFileSync } from 'node:fs';
import { cpuUsage } from 'node:process';
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { threadProgram } from '../../core/thread-program.js';
import { within } from '../../core/timing.js';
import type { Hook, JsonValue, Plugin, PluginCall, PluginContext, PluginLog } from '../api.js';
import { HookCall, LazyResponse, type Written, written } from '../call-view.js';
import { InvalidAnswer } from '../hook-answers.js';
import { HookFailure, ThrewInThread } from '../hook-errors.js';
import { PluginLoadError } from '../plugin-module.js';
import type {
  FromThread,
  HookRun,
  LoadedFacts,
  Part,
  PluginThreadData,
  SentAnswer,
  SentCall,
  SentPart,
  ToThread,
} from './messages.js';

export interface ThreadPluginOptions {
  /** The absolute path of a module, or the name of a package. */
  readonly use: string;
  /** The folder where packages are looked up first. */
  readonly directory: string;
  /** The longest acceptable block of the event loop of the thread, in milliseconds. */
  readonly blockLimit: number;
  /** The largest heap of the thread, in bytes. */
  readonly memory: number;
  /** Time for the module to load, in milliseconds. */
  readonly loadTime?: number;
}

/** Why a thread ended: its code blocked it for this time, its heap was full, or its code ended it. */
export interface ThreadEnd {
  readonly cause: 'blocked' | 'memory' | 'ended';
  readonly blockedMs?: number;
}

/** What happens outside of hooks. */
export interface ThreadListener {
  /** Called once, if the thread ended before the gateway closed it. */
  ended(end: ThreadEnd): void;
  /** The plugin failed in a callback, or in a promise that no hook returned. */
  detached(facts: object): void;
}

/** Time for a module to load, in milliseconds: it may wait for something that never comes, or never end. */
const LOAD_TIME = 30_000;
/** Time for a thread to end, in milliseconds. Only code outside of JavaScript can take longer. */
const END_TIME = 1_000;
/** Larger parts of a call are copied only if the plugin reads them. In characters. */
const LARGE = 64 * 1024;
/** Pauses between two questions whether the thread still turns, in milliseconds. */
const [SHORTEST_PAUSE, LONGEST_PAUSE] = [10, 250];
/** A busy machine delays a thread too; a block uses the processor for this part of its limit. */
const BUSY_PART = 0.5;
/** A thread that does not turn for this long is blocked also if it uses no time, in milliseconds. */
const IDLE_LIMIT = 10_000;
const MEGABYTE = 2 ** 20;
/** Less does not suffice for the thread itself, in megabytes. */
const SMALLEST_HEAP = 16;
/** Space for new objects, in megabytes. That of the gateway is larger, for many calls at the same time. */
const YOUNG = 16;

interface Waiting {
  readonly call: HookCall | undefined;
  readonly response: LazyResponse | undefined;
  resolve(answer: unknown): void;
  reject(failure: Error): void;
}

export class ThreadPlugin {
  /** The plugin, as the gateway uses it: its hooks run in the thread. */
  readonly plugin: Plugin;
  private readonly runs = new Map<number, Waiting>();
  private readonly numbers = new WeakMap<Promise<unknown>, number>();
  private lastRun = 0;
  private listener: ThreadListener | undefined;
  private log: PluginLog | undefined;
  private end: ThreadEnd | undefined;
  private closing = false;
  private settled: ((failure?: string) => void) | undefined;
  private timer: NodeJS.Timeout | undefined;
  /** A question whether the thread turns is open. */
  private asked = false;
  private turns: (() => void)[] = [];
  /** How long the open question waits, and the processor time when it was asked, in milliseconds. */
  private turning = { stood: 0, used: 0, last: 0, pause: LONGEST_PAUSE };

  private constructor(
    readonly facts: LoadedFacts,
    private readonly started: Started,
    private readonly options: ThreadPluginOptions,
    /** The last failure outside of hooks before anybody listens. */
    private readonly early: object[],
  ) {
    this.plugin = this.asPlugin();
    const { thread, port } = started;
    port.on(
      'message',
      orEnd(thread, (message) => this.received(message)),
    );
    // The thread ends with its plugin, so nothing of it keeps the process alive.
    port.unref();
    thread.on('error', (error: NodeJS.ErrnoException) =>
      this.stop({ cause: error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'memory' : 'ended' }),
    );
    thread.on('exit', () => this.stop({ cause: 'ended' }));
  }

  /** Starts a thread that imports the module. Throws `PluginLoadError`. */
  static async load(options: ThreadPluginOptions): Promise<ThreadPlugin> {
    const { use, loadTime = LOAD_TIME } = options;
    const started = start(options);
    const { thread, port } = started;
    const early: object[] = [];
    const loading = new Promise<FromThread>((resolve) => {
      const first = (message: FromThread): void => {
        if ('detached' in message) early.splice(0, 1, factsOf(message.detached));
        else resolve(message);
      };
      port.on('message', orEnd(thread, first));
      const ended = (how: string): void => resolve({ unusable: `${use} cannot be loaded: ${how}` });
      thread.once('error', (error: Error) => ended(error.message));
      thread.once('exit', () => ended('its code ended the thread'));
    });
    const message = await within(loading, loadTime);
    thread.removeAllListeners();
    port.removeAllListeners('message');
    if (message && 'loaded' in message)
      return new ThreadPlugin(message.loaded, { ...started, threadFile: message.threadFile }, options, early);
    thread.on('error', () => {});
    await ended(started);
    throw new PluginLoadError(
      message && 'unusable' in message ? message.unusable : `${use} cannot be loaded: its code takes too long`,
    );
  }

  /** From now on a block ends the thread: its setup, which may take long, is over. */
  watch(listener: ThreadListener): void {
    this.listener = listener;
    for (const facts of this.early.splice(0)) listener.detached(facts);
    if (this.end) {
      listener.ended(this.end);
      return;
    }
    const pause = Math.min(LONGEST_PAUSE, Math.max(SHORTEST_PAUSE, this.options.blockLimit / 4));
    this.turning = { stood: 0, used: 0, last: performance.now(), pause };
    this.timer = setInterval(() => {
      if (this.asked) this.judge();
      else this.ask();
    }, pause).unref();
  }

  /** Resolves when the thread turned once more, or ended: no hook waits only because another one blocks. */
  turned(): Promise<void> {
    if (this.end || !this.timer) return Promise.resolve();
    if (!this.asked) this.ask();
    return new Promise((resolve) => void this.turns.push(resolve));
  }

  /** The run of a hook has no more time: its answer is not awaited any more. */
  abandon(answer: Promise<unknown>): void {
    const run = this.numbers.get(answer);
    if (run === undefined || !this.runs.delete(run)) return;
    this.tell({ over: run });
  }

  /** Ends the thread. */
  async close(): Promise<void> {
    this.closing = true;
    this.stop({ cause: 'ended' });
    await ended(this.started);
  }

  private asPlugin(): Plugin {
    const { apiVersion, resourceScheme, hooks, setup, close } = this.facts;
    const told = (hook: Hook, call: PluginCall, value: unknown): Promise<unknown> =>
      this.run(this.runOf(hook, call, { about: JSON.stringify(value) }), call);
    const all: Required<Pick<Plugin, Hook>> = {
      onRequest: (call) => this.run(this.runOf('onRequest', call), call) as never,
      onResponse: (call, response) => {
        const lazy = response instanceof LazyResponse ? response : LazyResponse.of(response.result);
        const sent = { about: partOf(lazy), size: lazy.size };
        return this.run(this.runOf('onResponse', call, sent), call, lazy) as never;
      },
      onError: (call, error) => told('onError', call, error) as never,
      onEvent: (call, event) => told('onEvent', call, event) as never,
      onList: (call, items) => told('onList', call, items) as never,
      onAudit: (record) =>
        this.run({ run: ++this.lastRun, hook: 'onAudit', about: JSON.stringify(record) }) as Promise<void>,
    };
    return {
      apiVersion,
      ...(resourceScheme !== undefined && { resourceScheme }),
      ...(setup && { setup: (context: PluginContext) => this.setUp(context) }),
      ...(close && { close: () => this.askedFor({ close: true }) }),
      ...Object.fromEntries(hooks.map((hook) => [hook, all[hook]])),
    };
  }

  private async setUp({ name, options, log }: PluginContext): Promise<void> {
    this.log = log;
    await this.askedFor({ setup: { name, options } });
  }

  /** Asks for the setup or the end of the plugin. */
  private askedFor(message: ToThread): Promise<void> {
    return new Promise((resolve, reject) => {
      this.settled = (failure) => (failure === undefined ? resolve() : reject(new PluginLoadError(failure)));
      if (this.end) this.settled('its code ended the thread');
      else this.tell(message);
    });
  }

  private runOf(hook: Hook, call: PluginCall, more: Pick<HookRun, 'about' | 'size'> = {}): HookRun {
    return { run: ++this.lastRun, hook, call: sentCall(call), ...more };
  }

  private run(message: HookRun, call?: PluginCall, response?: LazyResponse): Promise<unknown> {
    const answer = new Promise<unknown>((resolve, reject) => {
      if (this.end) {
        reject(new HookFailure('disabled'));
        return;
      }
      this.runs.set(message.run, { call: call instanceof HookCall ? call : undefined, response, resolve, reject });
      this.tell(message);
    });
    this.numbers.set(answer, message.run);
    return answer;
  }

  private tell(message: ToThread): void {
    if (!this.end) this.started.port.postMessage(message);
  }

  private ask(): void {
    this.asked = true;
    this.turning = { ...this.turning, stood: 0, used: this.processorTime(), last: performance.now() };
    this.tell({ ping: true });
  }

  /** Ends the thread if it has not turned for too long. */
  private judge(): void {
    const { turning } = this;
    const { blockLimit } = this.options;
    const now = performance.now();
    // A process that was suspended, or that blocked itself, says nothing about the thread.
    turning.stood += Math.min(now - turning.last, 2 * turning.pause);
    turning.last = now;
    if (turning.stood < blockLimit) return;
    const used = this.processorTime() - turning.used;
    if (used > blockLimit * BUSY_PART || turning.stood > Math.max(blockLimit, IDLE_LIMIT))
      this.stop({ cause: 'blocked', blockedMs: Math.round(turning.stood) });
  }

  private received(message: FromThread): void {
    if (this.end) return;
    if ('answered' in message) this.settle(message.answered, (run) => run.resolve(answerOf(message.answer)));
    else if ('failed' in message) {
      const failure =
        'invalid' in message ? new InvalidAnswer(message.invalid) : new ThrewInThread(factsOf(message.threw));
      this.settle(message.failed, (run) => run.reject(failure));
    } else if ('pong' in message) this.hasTurned();
    else if ('fetch' in message) this.give(message.fetch, message.part);
    else if ('signal' in message) this.passSignal(message.signal);
    else if ('sees' in message) void this.answerSees(message);
    else if ('log' in message) this.log?.[message.log](message.message, message.fields);
    else if ('detached' in message) this.failedOutside(factsOf(message.detached));
    else if ('setUp' in message) this.settled?.(message.setUp === true ? undefined : message.setUp.failure);
    else if ('closed' in message) this.settled?.();
  }

  private failedOutside(facts: object): void {
    if (this.listener) this.listener.detached(facts);
    else this.early.splice(0, 1, facts);
  }

  private hasTurned(): void {
    // A block that has just ended counts too.
    if (this.asked && !this.end) this.judge();
    this.asked = false;
    for (const resolve of this.turns.splice(0)) resolve();
  }

  private settle(id: number, how: (run: Waiting) => void): void {
    const run = this.runs.get(id);
    if (!run) return;
    this.runs.delete(id);
    how(run);
  }

  /** Sends a part that the thread waits for; null if its run is over. */
  private give(id: number, part: Part): void {
    const run = this.runs.get(id);
    let text: string | null = null;
    try {
      const value =
        part === 'result' ? run?.response : run?.call?.[part === 'params' ? 'writtenParams' : 'writtenTool'];
      text = value?.text() ?? null;
    } finally {
      this.started.parts.postMessage(text);
      Atomics.store(this.started.arrived, 0, 1);
      Atomics.notify(this.started.arrived, 0);
    }
  }

  private passSignal(id: number): void {
    const signal = this.runs.get(id)?.call?.signal;
    if (!signal || signal.aborted) this.tell({ over: id });
    else signal.addEventListener('abort', () => this.runs.has(id) && this.tell({ over: id }), { once: true });
  }

  private async answerSees({ sees, run, server, tool }: Extract<FromThread, { readonly sees: number }>): Promise<void> {
    let visible = false;
    try {
      visible = (await this.runs.get(run)?.call?.sees(server, tool)) ?? false;
    } catch {
      // What cannot be known is not shown.
    }
    this.tell({ seen: sees, visible });
  }

  private processorTime(): number {
    return threadTime(this.started.threadFile) ?? processorTime();
  }

  /** The thread ended, or has to. */
  private stop(end: ThreadEnd): void {
    if (this.end) return;
    this.end = end;
    clearInterval(this.timer);
    void ended(this.started);
    const failure = (): Error => new HookFailure(end.cause === 'blocked' ? 'blocked' : 'ended');
    for (const id of [...this.runs.keys()]) this.settle(id, (run) => run.reject(failure()));
    this.settled?.(end.cause === 'memory' ? 'its memory is full' : 'its code ended the thread');
    this.hasTurned();
    if (!this.closing) this.listener?.ended(end);
  }
}

interface Started {
  readonly thread: Worker;
  readonly port: MessagePort;
  readonly parts: MessagePort;
  readonly arrived: Int32Array<SharedArrayBuffer>;
  /** Where Linux shows the processor time of the thread. */
  readonly threadFile?: string | undefined;
}

/** A module that gets hold of the port can send anything: a message that cannot be read ends its thread. */
const orEnd =
  (thread: Worker, take: (message: FromThread) => void) =>
  (message: FromThread): void => {
    try {
      take(message);
    } catch {
      void thread.terminate();
    }
  };

function start({ use, directory, memory }: ThreadPluginOptions): Started {
  const { file, execArgv } = threadProgram('plugin-side', import.meta.url);
  const [{ port1: port, port2 }, { port1: parts, port2: theirs }] = [new MessageChannel(), new MessageChannel()];
  const arrived = new Int32Array(new SharedArrayBuffer(4));
  const { timeOrigin } = performance;
  const data: PluginThreadData = { use, directory, port: port2, parts: theirs, arrived: arrived.buffer, timeOrigin };
  const thread = new Worker(file, {
    execArgv,
    name: 'parley-plugin',
    workerData: data,
    transferList: [port2, theirs],
    resourceLimits: {
      maxOldGenerationSizeMb: Math.max(SMALLEST_HEAP, Math.round(memory / MEGABYTE)),
      maxYoungGenerationSizeMb: YOUNG,
    },
    stdout: true,
    stderr: true,
  });
  thread.unref();
  // The stdout of the gateway may carry a protocol.
  for (const output of [thread.stdout, thread.stderr])
    output.on('data', (chunk: Buffer | string) => void process.stderr.write(chunk));
  return { thread, port, parts, arrived };
}

async function ended({ thread, port, parts }: Started): Promise<void> {
  port.close();
  parts.close();
  await within(
    thread.terminate().then(() => {}),
    END_TIME,
    { ref: false },
  );
}

/** An answer in objects of the gateway. */
function answerOf(answer: SentAnswer): unknown {
  if (answer === undefined) return undefined;
  if ('keys' in answer) return Object.fromEntries(answer.keys.map((key) => [key, undefined]));
  const value = answer.json === undefined ? undefined : (JSON.parse(answer.json) as JsonValue);
  return Object.fromEntries([[answer.key, value]]);
}

const factsOf = (value: unknown): object => (typeof value === 'object' && value !== null ? value : {});

const partOf = (value: Written): SentPart => (value.size > LARGE ? null : value.text());

function sentCall(call: PluginCall): SentCall {
  const { protocol, method, requestId, caller, account, server, kind, name, began } = call;
  const isOwn = call instanceof HookCall;
  const params = isOwn ? call.writtenParams : written(call.params);
  const tool = isOwn ? call.writtenTool : call.tool && written(call.tool);
  return {
    ...{ protocol, method, requestId, caller, account, server, kind, name, began },
    params: isOwn ? partOf(params) : params.text(),
    tool: tool && (isOwn ? partOf(tool) : tool.text()),
  };
}

/** The processor time of a thread, in milliseconds; undefined if the system does not show it. */
function threadTime(file: string | undefined): number | undefined {
  if (file === undefined) return undefined;
  try {
    // After the name, which is in parentheses and may contain anything: 11 fields, then user and system time in ticks.
    const fields = readFileSync(`${file}/stat`, 'latin1').split(') ').at(-1)?.split(' ');
    const ticks = Number(fields?.[11]) + Number(fields?.[12]);
    return Number.isFinite(ticks) ? ticks * TICK : undefined;
  } catch {
    return undefined;
  }
}

/** Linux counts processor time in hundredths of a second. */
const TICK = 10;

/** The processor time of this process, in milliseconds. */
function processorTime(): number {
  const { user, system } = cpuUsage();
  return (user + system) / 1_000;
}
