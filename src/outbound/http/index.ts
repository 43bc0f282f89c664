export { type HttpHeaders, headerOf } from '../../protocol/http/headers.js';
export { type BufferedReply, bufferedRequest, type RequestLimits } from './buffered-request.js';
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
} from './client-types.js';
export { DocumentError, type DocumentLimits, fetchJson } from './json-document.js';
export { type Environment, type ForwardProxy, type Guard, type ProxyRule, proxyRule, proxyRuleOf } from './proxy.js';
export { isPem, type TlsSettings } from './tls-material.js';
