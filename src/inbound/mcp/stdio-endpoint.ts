import type { Readable, Writable } from 'node:stream';
import type { Principal } from '../../core/caller.js';
import { type AuthenticationRequest, type Authenticator, admitted } from '../../identity/authenticator.js';
import { ProtocolError } from '../../protocol/errors.js';
import { LineReader } from '../../protocol/stdio/lines.js';
import { DuplexClient, type DuplexClientOptions } from './duplex-client.js';

export interface StdioEndpointOptions extends Omit<DuplexClientOptions, 'write' | 'address' | 'ended'> {
  readonly authenticator: Authenticator;
  readonly limits: DuplexClientOptions['limits'] & { readonly event: number };
}

/** The gateway on stdin and stdout: one message on each line. */
export class StdioEndpoint {
  private readonly client: DuplexClient;

  constructor(
    private readonly options: StdioEndpointOptions,
    private readonly output: Writable,
  ) {
    const write = (message: readonly Buffer[]): void => {
      this.output.write(Buffer.concat([...message, NEWLINE]));
    };
    this.client = new DuplexClient({ ...options, write });
  }

  /** Serves until the input ends. */
  serve(input: Readable): Promise<void> {
    const { limits } = this.options;
    const receive = (line: Buffer): void => void this.client.receive(line, () => this.principal());
    const lines = new LineReader(limits.event, {
      message: receive,
      bad: receive,
      tooLong: () => this.client.refuse(new ProtocolError('body_too_large', `A line exceeds ${limits.event} bytes`)),
    });
    return new Promise((resolve) => {
      input.on('data', (chunk: Buffer) => lines.push(chunk));
      input.on('end', () => resolve());
      input.on('error', () => resolve());
    });
  }

  /** The principal of the client program, authenticated anew for each message. */
  private principal(): Principal | Promise<Principal> {
    const given = this.options.authenticator.authenticate(PIPES);
    return given instanceof Promise ? given.then(admitted) : admitted(given);
  }

  /** Ends the subscriptions that are still open (mcp.md 5.5, 1). */
  end(): void {
    this.client.end();
  }
}

const NEWLINE = Buffer.from('\n');

/** stdio provides no information about the client program. */
const PIPES: AuthenticationRequest = {
  method: '',
  url: '',
  peer: undefined,
  certificate: undefined,
  header: () => undefined,
};
