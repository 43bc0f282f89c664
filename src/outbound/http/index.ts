export { type HttpHeaders, headerOf } from '../../protocol/http/fields.js';
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
