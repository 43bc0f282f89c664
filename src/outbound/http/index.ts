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
  inLane,
} from './exchange.js';
export { type Environment, type ProxyRule, proxyRule } from './proxy.js';
export { isPem, type TlsSettings } from './tls.js';
