/** Converts errors of undici and of its connections to errors of this client. */
import { HttpError } from './client-types.js';

/**
 * Wraps the error of a failed connection attempt, to hide the error code from undici. If undici saw the code of a
 * closed connection, it would dial again without end. After a certificate error, it would fail only the requests of one
 * server name.
 */
export class Unconnected extends Error {
  override readonly name = 'Unconnected';

  constructor(override readonly cause: Error) {
    super(cause.message);
  }
}

const cut = (): HttpError => new HttpError('ECONNRESET', 'the connection ended before the reply was complete');

/** The error for users of the client. `begun` is true if the head of the reply had arrived. */
export function replyError(error: Error, begun: boolean): Error {
  if (error instanceof Unconnected) return error.cause;
  const { code } = error as NodeJS.ErrnoException;
  switch (code) {
    case 'UND_ERR_SOCKET':
      return error.message.startsWith('bad ')
        ? new HttpError('HTTP_INVALID', 'the reply does not belong to the request')
        : cut();
    case 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH':
      // undici reports this error for any problem after a length was given, also for problems in the head.
      return begun ? cut() : new HttpError('HTTP_INVALID', 'the head of the reply is malformed');
    case 'ECONNRESET':
    case 'EPIPE':
    case 'HPE_INVALID_EOF_STATE':
      return cut();
    case 'UND_ERR_DESTROYED':
    case 'UND_ERR_CLOSED':
      return new HttpError('ECONNRESET', 'the client is closed');
    case 'UND_ERR_HEADERS_OVERFLOW':
      return new HttpError('HTTP_INVALID', 'the head of the reply is too long');
    case 'UND_ERR_INVALID_ARG':
    case 'UND_ERR_NOT_SUPPORTED':
    case 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH':
      return new HttpError('HTTP_UNSENDABLE', error.message);
    case 'ERR_ASSERTION':
      return new HttpError('HTTP_INVALID', 'the reply is malformed');
    default:
      return error.name === 'HTTPParserError' ? new HttpError('HTTP_INVALID', error.message) : error;
  }
}
