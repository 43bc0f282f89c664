/** The thread of a plugin that is a module. Code of the plugin runs here only. */
import { readlinkSync } from 'node:fs';
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import type { JsonObject, ListItem, Plugin, PluginCall, PluginError, PluginLog } from '../api.js';
import { InvalidAnswer, MOST_JSON } from '../hook-answers.js';
import { placeOf } from '../hook-errors.js';
import { hooksOf, loadPluginModule } from '../plugin-module.js';
import type { FromThread, HookRun, Part, PluginThreadData, SentAnswer, SentCall, ToThread } from './messages.js';

const { use, directory, port, parts, arrived, timeOrigin } = workerData as PluginThreadData;
// The module of the plugin shares these two: it must not find the ports, nor fill a queue that the gateway does not read.
parentPort?.close();
for (const key of Object.keys(workerData)) Reflect.deleteProperty(workerData, key);
const flag = new Int32Array(arrived);
const tell = (message: FromThread): void => port.postMessage(message);

/** Log lines between two signs of life. Code that never ends must not fill the memory of the gateway with them. */
const MOST_LINES = 1_000;
/** The longest message of a failure. */
const MOST_MESSAGE = 1_000;

let plugin: Plugin | undefined;
/** Runs that follow in later turns of the event loop. */
const waiting = new Map<number, HookRun>();
let running = false;
let lines = 0;
let lastQuestion = 0;
const questions = new Map<number, (visible: boolean) => void>();
/** The runs whose signal the plugin read. */
const signals = new Map<number, AbortController>();

process.on('uncaughtException', (error: unknown) => tell({ detached: placeOf(error) }));
process.on('unhandledRejection', (error: unknown) => tell({ detached: placeOf(error) }));
port.on('message', received);
await load();

async function load(): Promise<void> {
  try {
    const loaded = await loadPluginModule(use, directory);
    const { apiVersion, resourceScheme, setup, close } = loaded;
    const has = { setup: setup !== undefined, close: close !== undefined };
    plugin = loaded;
    tell({ loaded: { apiVersion, resourceScheme, hooks: hooksOf(loaded), ...has }, threadFile: threadFile() });
  } catch (error) {
    tell({ unusable: messageOf(error) });
  }
}

/** The folder in which Linux shows facts of this thread. */
function threadFile(): string | undefined {
  try {
    return `/proc/${readlinkSync('/proc/thread-self')}`;
  } catch {
    return undefined;
  }
}

function received(message: ToThread): void {
  if ('ping' in message) {
    lines = 0;
    tell({ pong: true });
  } else if ('run' in message) queue(message);
  else if ('over' in message) {
    waiting.delete(message.over);
    signals.get(message.over)?.abort();
  } else if ('seen' in message) {
    questions.get(message.seen)?.(message.visible);
    questions.delete(message.seen);
  } else if ('setup' in message) void setUp(message.setup);
  else void close();
}

/** One run for each turn of the event loop, so that many short runs are not a block, and late ones can be left out. */
function queue(message: HookRun): void {
  if (running) {
    waiting.set(message.run, message);
    return;
  }
  running = true;
  setImmediate(next);
  void run(message);
}

function next(): void {
  running = false;
  for (const [id, message] of waiting) {
    waiting.delete(id);
    queue(message);
    return;
  }
}

async function setUp({ name, options }: { name: string; options: Readonly<Record<string, string>> }): Promise<void> {
  try {
    await plugin?.setup?.({ name, options, log });
    tell({ setUp: true });
  } catch (error) {
    tell({ setUp: { failure: messageOf(error) } });
  }
}

async function close(): Promise<void> {
  try {
    await plugin?.close?.();
  } catch {
    // The gateway stops all the same.
  }
  tell({ closed: true });
}

async function run({ run: id, hook, call: sent, about, size = 0 }: HookRun): Promise<void> {
  const call = sent && new ThreadCall(id, sent);
  const value = (): unknown => JSON.parse(about ?? 'null');
  const invoke = (): unknown => {
    if (!plugin) return undefined;
    if (!call) return plugin.onAudit?.(value() as JsonObject);
    switch (hook) {
      case 'onRequest':
        return plugin.onRequest?.(call);
      case 'onResponse':
        return plugin.onResponse?.(call, new ThreadResponse(id, about ?? null, size));
      case 'onError':
        return plugin.onError?.(call, value() as PluginError);
      case 'onEvent':
        return plugin.onEvent?.(call, value() as JsonObject);
      case 'onList':
        return plugin.onList?.(call, value() as ListItem[]);
      default:
        return undefined;
    }
  };
  try {
    const returned = invoke();
    const answer: unknown = typeof returned === 'object' ? await returned : returned;
    tell({ answered: id, answer: hook === 'onAudit' ? undefined : written(answer) });
  } catch (error) {
    tell(
      error instanceof InvalidAnswer ? { failed: id, invalid: error.message } : { failed: id, threw: placeOf(error) },
    );
  } finally {
    call?.end();
  }
}

/** The answer as text. Getters and `toJSON` of the answer run here, and nothing of them reaches the gateway. */
function written(answer: unknown): SentAnswer {
  if (answer === undefined || answer === null) return undefined;
  if (typeof answer !== 'object' || Array.isArray(answer)) throw new InvalidAnswer('the answer must be an object');
  const keys = Object.keys(answer);
  const [key] = keys;
  if (key === undefined) return undefined;
  // More members than one are refused, so their names suffice; an unknown name must not become long.
  if (keys.length > 1) return { keys: keys.slice(0, 2) };
  const value = (answer as Record<string, unknown>)[key];
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch {
    throw new InvalidAnswer('the value cannot be written as JSON');
  }
  if (json !== undefined && json.length > MOST_JSON)
    throw new InvalidAnswer('the value is not a JSON object, or is too large');
  return { key, json };
}

/** Waits for a large part of a call. The event loop of the gateway never waits for this thread, so the part comes soon. */
function fetched(run: number, part: Part): string {
  Atomics.store(flag, 0, 0);
  tell({ fetch: run, part });
  Atomics.wait(flag, 0, 0);
  const message = receiveMessageOnPort(parts)?.message as string | null | undefined;
  if (typeof message !== 'string') throw new Error(`the time of the hook is over, so ${part} cannot be read`);
  return message;
}

class ThreadCall implements PluginCall {
  readonly protocol: 'mcp' | 'a2a';
  readonly method: string;
  readonly requestId: string;
  readonly caller: PluginCall['caller'];
  readonly account: string;
  readonly server: string | undefined;
  readonly kind: string | undefined;
  readonly name: string | undefined;
  readonly began: number;
  #params: JsonObject | undefined;
  #tool: { readonly value: JsonObject | undefined } | undefined;
  #controller: AbortController | undefined;
  #over = false;
  readonly #run: number;
  readonly #sent: SentCall;

  constructor(run: number, sent: SentCall) {
    this.#run = run;
    this.#sent = sent;
    const { protocol, method, requestId, caller, account, server, kind, name, began } = sent;
    this.protocol = protocol;
    this.method = method;
    this.requestId = requestId;
    this.caller = caller;
    this.account = account ?? '';
    this.server = server;
    this.kind = kind;
    this.name = name;
    this.began = began + timeOrigin - performance.timeOrigin;
  }

  get params(): JsonObject {
    this.#params ??= JSON.parse(this.#sent.params ?? fetched(this.#run, 'params')) as JsonObject;
    return this.#params;
  }

  get tool(): JsonObject | undefined {
    const { tool } = this.#sent;
    if (tool === undefined) return undefined;
    this.#tool ??= { value: JSON.parse(tool ?? fetched(this.#run, 'tool')) as JsonObject };
    return this.#tool.value;
  }

  sees(server: string, tool: string): Promise<boolean> {
    const question = ++lastQuestion;
    return new Promise((resolve) => {
      questions.set(question, resolve);
      tell({ sees: question, run: this.#run, server: String(server), tool: String(tool) });
    });
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#over) this.#controller.abort();
      else {
        signals.set(this.#run, this.#controller);
        tell({ signal: this.#run });
      }
    }
    return this.#controller.signal;
  }

  end(): void {
    this.#over = true;
    signals.delete(this.#run);
    this.#controller?.abort();
  }
}

class ThreadResponse {
  readonly size: number;
  #result: JsonObject | undefined;
  readonly #run: number;
  readonly #sent: string | null;

  constructor(run: number, sent: string | null, size: number) {
    this.#run = run;
    this.#sent = sent;
    this.size = size;
  }

  get result(): JsonObject {
    this.#result ??= JSON.parse(this.#sent ?? fetched(this.#run, 'result')) as JsonObject;
    return this.#result;
  }
}

const writing =
  (level: keyof PluginLog) =>
  (message: string, fields: object = {}): void => {
    if (++lines > MOST_LINES) return;
    const line = { log: level, message: String(message).slice(0, MOST_MESSAGE) } as const;
    try {
      tell({ ...line, fields: { ...fields } });
    } catch {
      // Functions and the like cannot reach the gateway.
      tell({ ...line, fields: {} });
    }
  };
const log: PluginLog = {
  debug: writing('debug'),
  info: writing('info'),
  warn: writing('warn'),
  error: writing('error'),
};

function messageOf(error: unknown): string {
  try {
    return (error instanceof Error ? error.message : String(error)).slice(0, MOST_MESSAGE);
  } catch {
    return 'an error that cannot be read';
  }
}
