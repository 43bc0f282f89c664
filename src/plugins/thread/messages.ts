/** What the gateway and the thread of a plugin tell each other. */
import type { MessagePort } from 'node:worker_threads';
import type { Hook, PluginCaller, PluginLog } from '../api.js';

export interface PluginThreadData {
  readonly use: string;
  readonly directory: string;
  readonly port: MessagePort;
  /** Brings the parts that the thread waits for. */
  readonly parts: MessagePort;
  /** One number: 1 if the part that the thread waits for has arrived. */
  readonly arrived: SharedArrayBuffer;
  /** The origin of `performance.now()` in the gateway. */
  readonly timeOrigin: number;
}

/** A part of a call that may be large. */
export type Part = 'params' | 'tool' | 'result';
/** JSON text; null if it is large, and follows when the plugin reads it; undefined if there is none. */
export type SentPart = string | null | undefined;

export interface SentCall {
  readonly protocol: 'mcp' | 'a2a';
  readonly method: string;
  readonly requestId: string;
  readonly caller: PluginCaller;
  readonly account: string | undefined;
  readonly server: string | undefined;
  readonly kind: string | undefined;
  readonly name: string | undefined;
  readonly began: number;
  readonly params: SentPart;
  readonly tool: SentPart;
}

/** One run of a hook. */
export interface HookRun {
  readonly run: number;
  readonly hook: Hook;
  readonly call?: SentCall;
  /** The result, error, event, items or record. */
  readonly about?: SentPart;
  /** The bytes of a result. */
  readonly size?: number;
}

export type ToThread =
  | HookRun
  | { readonly setup: { readonly name: string; readonly options: Readonly<Record<string, string>> } }
  | { readonly close: true }
  | { readonly ping: true }
  /** The time of the run is over, or its client no longer waits. */
  | { readonly over: number }
  | { readonly seen: number; readonly visible: boolean };

/** The facts of a plugin that its thread loaded. */
export interface LoadedFacts {
  readonly apiVersion: 1;
  readonly hooks: readonly Hook[];
  readonly setup: boolean;
  readonly close: boolean;
  readonly resourceScheme: string | undefined;
}

/** The member of an answer that has exactly one, as JSON text; otherwise the names of all members. */
export type SentAnswer =
  | undefined
  | { readonly key: string; readonly json: string | undefined }
  | { readonly keys: readonly string[] };

export type FromThread =
  | { readonly loaded: LoadedFacts; readonly threadFile: string | undefined }
  | { readonly unusable: string }
  | { readonly setUp: true | { readonly failure: string } }
  | { readonly closed: true }
  | { readonly pong: true }
  | { readonly answered: number; readonly answer: SentAnswer }
  | { readonly failed: number; readonly invalid: string }
  | { readonly failed: number; readonly threw: object }
  | { readonly fetch: number; readonly part: Part }
  /** The plugin read the signal of this run. */
  | { readonly signal: number }
  | { readonly sees: number; readonly run: number; readonly server: string; readonly tool: string }
  | { readonly log: keyof PluginLog; readonly message: string; readonly fields: object }
  | { readonly detached: object };
