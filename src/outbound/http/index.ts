export { type HttpHeaders, headerOf } from '../../protocol/http/headers.js';
export { HttpClient, type HttpClientOptions } from './client.js';
export {
  type Abortable,
  HttpError,
  type HttpFailure,
  type HttpReply,
  type HttpRequest,
  type HttpTarget,
  httpTarget,
} from './exchange.js';
