/** The messages between the gateway and the thread of an evaluator. */

export interface ModuleThreadData {
  /** The URL of the module. */
  readonly module: string;
}

export interface ToModule {
  readonly id: number;
  /** The call as JSON. */
  readonly json: Uint8Array;
}

export type FromModule =
  /** The module is loaded. */
  | { readonly ready: true }
  | { readonly id: number; readonly score: unknown; readonly label: unknown }
  /** The name of the error and the place where it was thrown; its message may contain words of the call. */
  | { readonly id: number; readonly error: string }
  /** The module cannot be used. */
  | { readonly unusable: string };
