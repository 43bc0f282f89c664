export { HttpClient, type HttpClientOptions } from './client.js';
export {
  type Abortable,
  HttpError,
  type HttpFailure,
  type HttpHeaders,
  type HttpReply,
  type HttpRequest,
  type HttpTarget,
  headerOf,
  httpTarget,
} from './exchange.js';
