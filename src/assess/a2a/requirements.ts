/** Requirements of A2A agents. The letters are the versions: A is 0.3, B is 1.0. */
import type { Level, Requirement, Transport } from '../requirement.js';

const BOTH: readonly Transport[] = ['JSONRPC', 'HTTP+JSON'];
const RPC: readonly Transport[] = ['JSONRPC'];
const REST: readonly Transport[] = ['HTTP+JSON'];
const SPEC = 'latest/specification';

function row(
  id: string,
  level: Level,
  versions: string,
  over: readonly Transport[],
  category: string,
  probe: string | { readonly unobservable: string },
  text: string,
  fix: string,
): Requirement {
  const seen = typeof probe === 'string' ? { probe } : probe;
  return { id: `A2A-${id}`, protocol: 'A2A', level, versions, over, category, text, spec: SPEC, fix, ...seen };
}

const CARD = 'Card';
const VERSIONS = 'Versions';
const TASKS = 'Messages and tasks';
const STREAMS = 'Streaming';
const PUSH = 'Push';
const ERRORS = 'Errors and format';
const SECURITY = 'Security';

// biome-ignore format: one requirement per line
export const A2A_REQUIREMENTS: readonly Requirement[] = [
  row('S-1', 'MUST', 'A,B', BOTH, CARD, 'cardPlace', 'The card is JSON at /.well-known/agent-card.json.', 'Serve the card there as application/json.'),
  row('S-2a', 'MUST', 'B', BOTH, CARD, 'cardFields', 'The card has every required field.', 'Complete the card.'),
  row('S-2b', 'MUST', 'B', BOTH, CARD, 'cardInterfaces', 'Each interface has url, protocolBinding and protocolVersion.', 'Complete supportedInterfaces.'),
  row('S-2c', 'MUST', 'A', BOTH, CARD, 'cardFields', 'The card has every required field.', 'Complete the card.'),
  row('S-2d', 'MUST', 'A,B', BOTH, CARD, 'cardSkills', 'Each skill has id, name, description and tags.', 'Complete the skills.'),
  row('S-3', 'MUST', 'A,B', BOTH, CARD, 'declaredBinding', 'A declared binding is served at its address.', 'Declare only bindings that are served.'),
  row('S-4a', 'SHOULD', 'B', BOTH, CARD, 'cardCache', 'The card has Cache-Control with max-age, and an ETag.', 'Add the headers.'),
  row('S-4b', 'SHOULD', 'B', BOTH, CARD, 'cardNotModified', 'A request for the card with the current ETag gets 304.', 'Compare If-None-Match.'),
  row('S-5', 'MUST', 'A', BOTH, CARD, 'preferredTransport', 'preferredTransport names a transport of the protocol.', 'Set preferredTransport.'),
  row('S-6', 'MUST', 'B', BOTH, CARD, { unobservable: 'needs the keys of the signatures' }, 'Signatures of the card verify.', 'Sign the canonical form.'),
  row('S-10a', 'MUST', 'B', BOTH, VERSIONS, 'patchVersion', 'The patch number of A2A-Version is ignored.', 'Compare major and minor only.'),
  row('S-10b', 'MUST', 'B', BOTH, VERSIONS, 'queryVersion', 'A2A-Version is accepted as a query parameter.', 'Read the parameter too.'),
  row('S-12', 'MUST', 'B', BOTH, VERSIONS, 'unknownVersion', 'An unsupported A2A-Version gets VersionNotSupportedError.', 'Answer with -32009.'),
  row('S-14', 'SHOULD', 'A,B', BOTH, VERSIONS, 'unknownExtension', 'Extensions that the agent does not know are ignored.', 'Ignore unknown extensions.'),
  row('S-20', 'MUST', 'A,B', BOTH, TASKS, 'sendMessage', 'A message is answered with a task or a message.', 'Return {task} or {message}.'),
  row('S-21', 'MUST', 'B', BOTH, TASKS, 'terminalMessage', 'A message to a task that ended gets UnsupportedOperationError.', 'Answer with -32004.'),
  row('S-24', 'MUST', 'B', BOTH, TASKS, 'unknownTaskMessage', 'A message to an unknown task gets TaskNotFoundError.', 'Answer with -32001.'),
  row('S-25', 'MUST', 'B', BOTH, TASKS, 'contextId', 'The answer to a message has the contextId.', 'Return the generated contextId.'),
  row('S-26a', 'MUST', 'A,B', BOTH, TASKS, 'unknownTask', 'An unknown task gets TaskNotFoundError.', 'Answer with -32001.'),
  row('S-26b', 'MUST', 'A,B', BOTH, TASKS, 'getTask', 'A task can be fetched after it was created.', 'Keep tasks.'),
  row('S-27a', 'MUST', 'B', BOTH, TASKS, 'listTasks', 'A list of tasks has tasks, nextPageToken, pageSize and totalSize.', 'Complete the list.'),
  row('S-27b', 'MUST', 'B', BOTH, TASKS, 'pageSize', 'A pageSize above 100 is refused.', 'Answer with -32602.'),
  row('S-28a', 'MUST', 'A,B', BOTH, TASKS, 'cancelUnknown', 'Cancelling an unknown task gets TaskNotFoundError.', 'Answer with -32001.'),
  row('S-28b', 'MUST', 'A,B', BOTH, TASKS, 'cancelEnded', 'Cancelling a completed task gets TaskNotCancelableError.', 'Answer with -32002.'),
  row('S-29', 'MUST', 'B', BOTH, TASKS, 'historyLength', 'With historyLength 0 a task has no history.', 'Omit history.'),
  row('S-30', 'MUST', 'A,B', BOTH, TASKS, 'emptyMessage', 'A message without parts is refused.', 'Answer with -32602.'),
  row('S-76', 'MUST', 'A,B', BOTH, TASKS, 'artifacts', 'Artifacts have an artifactId and parts.', 'Complete the artifacts.'),
  row('S-40', 'MUST', 'A,B', BOTH, STREAMS, 'streamingOff', 'Without the capability streaming, subscriptions get UnsupportedOperationError.', 'Answer with -32004.'),
  row('S-41', 'MUST', 'B', BOTH, STREAMS, 'streamBegin', 'A stream begins with a task or a message.', 'Send the task first.'),
  row('S-42', 'MUST', 'A,B', BOTH, STREAMS, 'streamEnd', 'A stream ends after the last state.', 'Close the stream.'),
  row('S-43', 'MUST', 'A,B', BOTH, STREAMS, 'subscribeUnknown', 'A subscription to an unknown task gets TaskNotFoundError.', 'Answer with -32001.'),
  row('S-44', 'MUST', 'A,B', RPC, STREAMS, 'streamEvents', 'Each event of a stream is a JSON-RPC response with the id of the request.', 'Wrap each event.'),
  row('S-50', 'MUST', 'A,B', BOTH, PUSH, 'pushOff', 'Without the capability pushNotifications, its operations get PushNotificationNotSupportedError.', 'Answer with -32003.'),
  row('S-51', 'MUST', 'B', BOTH, PUSH, 'pushUnknown', 'A push configuration of an unknown task gets TaskNotFoundError.', 'Answer with -32001.'),
  row('S-52', 'MUST', 'B', BOTH, PUSH, { unobservable: 'needs an address that the agent can call' }, 'Each push configuration gets at least one delivery.', 'Deliver each update.'),
  row('S-60', 'MUST', 'B', BOTH, SECURITY, 'extendedCardOff', 'Without the capability, the extended card gets UnsupportedOperationError.', 'Answer with -32004.'),
  row('S-61', 'MUST', 'A,B', BOTH, SECURITY, 'authentication', 'An agent that declares security refuses a request without credentials with 401 and WWW-Authenticate.', 'Authenticate each request.'),
  row('SEC-02', 'SHOULD', 'A,B', BOTH, SECURITY, 'noStackTraces', 'Errors tell no stack traces and no paths of the agent.', 'Send messages for the caller.'),
  row('S-70a', 'MUST', 'B', REST, ERRORS, 'restErrors', 'An error has code, status, message and an ErrorInfo with reason and domain.', 'Send google.rpc.Status as JSON.'),
  row('S-70b', 'SHOULD', 'B', RPC, ERRORS, 'rpcErrorInfo', 'The data of a JSON-RPC error has an ErrorInfo.', 'Add error.data with ErrorInfo.'),
  row('S-70c', 'MUST', 'B', REST, ERRORS, 'restStatus', 'An unknown task has status 404.', 'Map errors to their status.'),
  row('S-71a', 'MUST', 'A,B', RPC, ERRORS, 'parseError', 'A body that is not JSON gets -32700.', 'Answer with -32700.'),
  row('S-71b', 'MUST', 'A,B', RPC, ERRORS, 'notRequest', 'An object that is no request gets -32600.', 'Answer with -32600.'),
  row('S-71c', 'MUST', 'A,B', RPC, ERRORS, 'unknownMethod', 'An unknown method gets -32601.', 'Answer with -32601.'),
  row('S-71d', 'MUST', 'A,B', RPC, ERRORS, 'ids', 'The id of a request comes back exactly.', 'Copy the id with its type.'),
  row('S-71e', 'MUST', 'A,B', RPC, ERRORS, 'batch', 'A batch is refused with -32600.', 'Answer arrays with -32600.'),
  row('S-72a', 'MUST', 'B', BOTH, ERRORS, 'camelCase', 'Keys are written in camelCase.', 'Do not send snake_case keys.'),
  row('S-72b', 'MUST', 'B', BOTH, ERRORS, 'stateNames', 'States are enum names such as TASK_STATE_WORKING.', 'Use the names of ProtoJSON.'),
  row('S-73', 'MUST', 'A,B', ['GRPC'], ERRORS, { unobservable: 'gRPC is not examined' }, 'gRPC serves the services of the declared versions.', 'Serve both services.'),
];
