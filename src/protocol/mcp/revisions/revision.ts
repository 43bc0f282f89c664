/** The features that one revision of the protocol can express. The codecs decide by these flags only (mcp.md 1.7). */
export interface Expresses {
  readonly toolAnnotations: boolean;
  readonly titles: boolean;
  readonly icons: boolean;
  /** `description` and `websiteUrl` of an Implementation. */
  readonly implementationDetails: boolean;
  /** `_meta` on tools, resources, prompts, content blocks and roots. */
  readonly itemMeta: boolean;
  readonly lastModified: boolean;
  /** Tool output besides content: none, an object with an object schema, or any JSON value. */
  readonly structuredOutput: 'none' | 'object' | 'any';
  /** `execution.taskSupport` on tools. */
  readonly execution: boolean;
  readonly audio: boolean;
  readonly resourceLinks: boolean;
  readonly completionsCapability: boolean;
  readonly completionContext: boolean;
  readonly progressMessage: boolean;
  readonly elicitation: readonly ('form' | 'url')[];
  /** Multi-select enums, titled enums and defaults of every primitive in elicitation forms. */
  readonly richForms: boolean;
  /** Tools, tool results and content arrays in sampling. */
  readonly samplingTools: boolean;
  /** A server sends its questions as the result of a call, and the client answers them by repeating the call. */
  readonly inputRequired: boolean;
  /** The error that requires the user to open URLs first. */
  readonly urlElicitationError: boolean;
  readonly batches: boolean;
  readonly tasks: 'none' | 'core' | 'extension';
}

export interface Revision {
  readonly date: string;
  /** The legacy era begins with `initialize`; the modern era has metadata on every request. */
  readonly era: 'legacy' | 'modern';
  readonly expresses: Expresses;
  /** Streamable HTTP sends the negotiated version in a header after the handshake (HL-16). */
  readonly versionHeader: boolean;
  /** A resumable stream begins with an event that has an id and no data (HL-05). */
  readonly primingEvents: boolean;
  /** Whether the revision has the Streamable HTTP transport. */
  readonly streamableHttp: boolean;
}
