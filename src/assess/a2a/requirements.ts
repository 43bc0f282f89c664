/** Requirements of A2A agents. The letters are the versions: A is 0.1, B is 0.2, C is 0.3, D is 1.0. */
import type { Level, Requirement, Transport } from '../requirement.js';

const ALL: readonly Transport[] = ['JSONRPC', 'HTTP+JSON', 'GRPC'];
const HTTP: readonly Transport[] = ['JSONRPC', 'HTTP+JSON'];
const RPC: readonly Transport[] = ['JSONRPC'];
const REST: readonly Transport[] = ['HTTP+JSON'];
const GRPC: readonly Transport[] = ['GRPC'];
const SPEC = 'specification';

interface Unobservable {
  readonly unobservable: string;
}

const hidden = (unobservable: string): Unobservable => ({ unobservable });

function row(
  id: string,
  level: Level,
  versions: string,
  over: readonly Transport[],
  category: string,
  probe: string | Unobservable,
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

const TWO_CALLERS = 'needs two callers with different rights';

// biome-ignore format: one requirement per line
export const A2A_REQUIREMENTS: readonly Requirement[] = [
  row('S-1', 'MUST', 'C,D', ALL, CARD, 'cardPlace', 'The card is JSON at /.well-known/agent-card.json.', 'Serve the card there as application/json.'),
  row('S-1b', 'SHOULD', 'A,B', ALL, CARD, 'oldCardPlace', 'The card of these versions is JSON at /.well-known/agent.json.', 'Serve the card there as application/json.'),
  row('S-2a', 'MUST', 'D', ALL, CARD, 'cardFields', 'The card has every required field.', 'Complete the card.'),
  row('S-2b', 'MUST', 'D', ALL, CARD, 'cardInterfaces', 'Each interface has url, protocolBinding and protocolVersion.', 'Complete supportedInterfaces.'),
  row('S-2c', 'MUST', 'A-C', ALL, CARD, 'cardFields', 'The card has every required field.', 'Complete the card.'),
  row('S-2d', 'MUST', 'A-D', ALL, CARD, 'cardSkills', 'Each skill has id, name, description and tags; in 0.1 id and name.', 'Complete the skills.'),
  row('S-3', 'MUST', 'A-D', HTTP, CARD, 'declaredBinding', 'A declared binding is served at its address.', 'Declare only bindings that are served.'),
  row('S-3b', 'MUST', 'D', RPC, CARD, 'undeclaredBinding', 'A binding that is served is declared.', 'Add the interface to the card.'),
  row('S-4a', 'SHOULD', 'D', ALL, CARD, 'cardCache', 'The card has Cache-Control with max-age, and an ETag.', 'Add the headers.'),
  row('S-4b', 'SHOULD', 'D', ALL, CARD, 'cardNotModified', 'A request for the card with the current ETag gets 304.', 'Compare If-None-Match.'),
  row('S-5', 'MUST', 'C', ALL, CARD, 'preferredTransport', 'preferredTransport names the transport of url.', 'Set preferredTransport.'),
  row('S-5b', 'SHOULD', 'C', ALL, CARD, 'repeatedInterface', 'additionalInterfaces repeats url with preferredTransport.', 'Add the preferred interface to the list.'),
  row('S-5c', 'MUST', 'C', ALL, CARD, 'conflictingTransports', 'One address has no conflicting transports.', 'Give each transport its address.'),
  row('S-6a', 'MUST', 'D', ALL, CARD, 'signatureHeaders', 'The protected header of a signature has alg and kid.', 'Add them to the header.'),
  row('S-6b', 'SHOULD', 'D', ALL, CARD, 'signatureType', 'The protected header of a signature has the typ JOSE.', 'Add typ.'),
  row('S-6c', 'MUST', 'D', ALL, CARD, hidden('needs the keys of the signatures'), 'Signatures of the card verify.', 'Sign the canonical form.'),
  row('S-7', 'MUST', 'A-D', ALL, CARD, hidden('needs to know which content is sensitive'), 'A card with sensitive content needs authentication.', 'Protect the card.'),
  row('S-10a', 'MUST', 'D', ALL, VERSIONS, 'patchVersion', 'The patch number of A2A-Version is ignored.', 'Compare major and minor only.'),
  row('S-10b', 'MUST', 'D', HTTP, VERSIONS, 'queryVersion', 'A2A-Version is accepted as a query parameter.', 'Read the parameter too.'),
  row('S-11', 'MUST', 'D', RPC, VERSIONS, 'absentVersion', 'A request without a version is one of 0.3.', 'Read such requests as 0.3, or refuse them with -32009.'),
  row('S-12', 'MUST', 'D', ALL, VERSIONS, 'unknownVersion', 'An unsupported A2A-Version gets VersionNotSupportedError.', 'Answer with -32009.'),
  row('S-13', 'MUST', 'D', ALL, VERSIONS, 'lowerCaseHeader', 'Service parameters are read from headers in any case, and from metadata of gRPC.', 'Compare header names without case.'),
  row('S-14', 'SHOULD', 'C,D', ALL, VERSIONS, 'unknownExtension', 'Extensions that the agent does not know are ignored.', 'Ignore unknown extensions.'),
  row('S-14b', 'SHOULD', 'C,D', HTTP, VERSIONS, 'echoedExtension', 'A response names only extensions that the agent activated.', 'Name active extensions only.'),
  row('S-15', 'MUST', 'D', ALL, VERSIONS, 'requiredExtension', 'A message without a required extension gets ExtensionSupportRequiredError.', 'Answer with -32008.'),
  row('S-15b', 'MUST', 'D', HTTP, VERSIONS, 'otherExtensionVersion', 'An agent does not fall back to another version of an extension.', 'Refuse the request.'),
  row('S-20', 'MUST', 'A-D', ALL, TASKS, 'sendMessage', 'A message is answered with a task or a message.', 'Return {task} or {message}.'),
  row('S-20b', 'MUST', 'A-D', ALL, TASKS, 'taskFields', 'A task has an id and a status; in 0.2 and 0.3 also a contextId.', 'Complete the task.'),
  row('S-21', 'MUST', 'D', ALL, TASKS, 'terminalMessage', 'A message to a task that ended gets UnsupportedOperationError.', 'Answer with -32004.'),
  row('S-22', 'MUST', 'D', ALL, TASKS, 'contentType', 'A part of a media type that the card does not have gets ContentTypeNotSupportedError.', 'Answer with -32005.'),
  row('S-23a', 'MUST', 'D', ALL, TASKS, 'blocking', 'The answer to a message waits until the task ends or waits for the client.', 'Wait, unless returnImmediately is set.'),
  row('S-23b', 'MUST', 'D', ALL, TASKS, 'returnsAtOnce', 'A message with returnImmediately is answered with a task or a message.', 'Return the task that was created.'),
  row('S-24', 'MUST', 'D', ALL, TASKS, 'unknownTaskMessage', 'A message to an unknown task gets TaskNotFoundError.', 'Answer with -32001.'),
  row('S-25', 'MUST', 'D', ALL, TASKS, 'contextId', 'The answer to a message has the contextId.', 'Return the generated contextId.'),
  row('S-25b', 'MUST', 'D', ALL, TASKS, 'otherContext', 'A message to a task with another contextId is refused.', 'Compare contextId with that of the task.'),
  row('S-25c', 'MUST', 'D', ALL, TASKS, 'keptContext', 'A contextId of the client is kept or refused, never replaced.', 'Keep it, or refuse the message.'),
  row('S-26a', 'MUST', 'A-D', ALL, TASKS, 'unknownTask', 'An unknown task gets TaskNotFoundError.', 'Answer with -32001.'),
  row('S-26b', 'MUST', 'A-D', ALL, TASKS, 'getTask', 'A task can be fetched after it was created.', 'Keep tasks.'),
  row('S-26c', 'MUST', 'A-D', ALL, TASKS, hidden(TWO_CALLERS), 'A task of another caller is not found.', 'Look up tasks of the caller only.'),
  row('S-27a', 'MUST', 'D', ALL, TASKS, 'listTasks', 'A list of tasks has tasks, nextPageToken, pageSize and totalSize.', 'Complete the list.'),
  row('S-27b', 'MUST', 'D', ALL, TASKS, 'pageSize', 'A pageSize above 100 is refused.', 'Answer with -32602.'),
  row('S-27c', 'MUST', 'D', ALL, TASKS, 'negativePageSize', 'A pageSize below 1 is refused.', 'Answer with -32602.'),
  row('S-27d', 'MUST', 'D', ALL, TASKS, 'listedTask', 'The list has the tasks of the caller.', 'List tasks of every state.'),
  row('S-27e', 'MUST', 'D', ALL, TASKS, 'noArtifacts', 'The list has no artifacts unless includeArtifacts is set.', 'Omit artifacts.'),
  row('S-27f', 'MUST', 'D', ALL, TASKS, 'newestFirst', 'The list has the newest tasks first.', 'Sort by the time of the status, descending.'),
  row('S-27g', 'MUST', 'D', ALL, TASKS, 'pages', 'The token of a page leads to the next one.', 'Return the tasks after the token.'),
  row('S-28a', 'MUST', 'A-D', ALL, TASKS, 'cancelUnknown', 'Cancelling an unknown task gets TaskNotFoundError.', 'Answer with -32001.'),
  row('S-28b', 'MUST', 'A-D', ALL, TASKS, 'cancelEnded', 'Cancelling a completed task gets TaskNotCancelableError.', 'Answer with -32002.'),
  row('S-28c', 'MUST', 'D', ALL, TASKS, 'cancelRunning', 'Cancelling a running task returns the task.', 'Return the task with its new state.'),
  row('S-29', 'MUST', 'D', ALL, TASKS, 'historyLength', 'With historyLength 0 a task has no history.', 'Omit history.'),
  row('S-29b', 'MUST', 'B-D', ALL, TASKS, 'historyLimit', 'A history is never longer than historyLength.', 'Return the newest messages only.'),
  row('S-29c', 'MUST', 'D', ALL, TASKS, 'historyOrder', 'A history is in the order of time: nothing of the agent comes before the message that began the task.', 'Keep the order of messages.'),
  row('S-30', 'MUST', 'B-D', ALL, TASKS, 'emptyMessage', 'A message without parts is refused.', 'Answer with -32602.'),
  row('S-30b', 'MUST', 'C,D', ALL, TASKS, 'messageId', 'A message without messageId is refused.', 'Answer with -32602.'),
  row('S-30c', 'MUST', 'A-D', ALL, TASKS, 'noMessage', 'A request without a message is refused.', 'Answer with -32602.'),
  row('S-31', 'SHOULD', 'D', HTTP, TASKS, 'unknownFields', 'Unknown fields of a request are ignored.', 'Ignore unknown fields.'),
  row('S-76', 'MUST', 'A-D', ALL, TASKS, 'artifacts', 'Artifacts have parts, and since 0.2 an artifactId.', 'Complete the artifacts.'),
  row('S-40', 'MUST', 'B-D', ALL, STREAMS, 'streamingOff', 'Without the capability streaming, subscriptions get UnsupportedOperationError.', 'Answer with -32004.'),
  row('S-41', 'MUST', 'D', ALL, STREAMS, 'streamBegin', 'A stream begins with a task or a message.', 'Send the task first.'),
  row('S-42', 'MUST', 'A-D', ALL, STREAMS, 'streamEnd', 'A stream ends after the last state.', 'Close the stream.'),
  row('S-42b', 'MUST', 'A-D', ALL, STREAMS, 'streamTask', 'Every event of a stream has the id of the task.', 'Add the id to each event.'),
  row('S-42c', 'MUST', 'A-C', ALL, STREAMS, 'finalEvent', 'The last event of a stream, and no other, is final.', 'Set final on the last event.'),
  row('S-42d', 'MUST', 'D', ALL, STREAMS, hidden('needs a task that runs for long'), 'Every subscriber gets every event, in order.', 'Send each event to all streams.'),
  row('S-43', 'MUST', 'A-D', ALL, STREAMS, 'subscribeUnknown', 'A subscription to an unknown task gets TaskNotFoundError.', 'Answer with -32001.'),
  row('S-43b', 'MUST', 'D', ALL, STREAMS, 'subscribeEnded', 'A subscription to a task that ended gets UnsupportedOperationError.', 'Answer with -32004.'),
  row('S-43c', 'MUST', 'D', ALL, STREAMS, 'subscribeRunning', 'The first event of a subscription is the task.', 'Send the task first.'),
  row('S-44', 'MUST', 'A-D', RPC, STREAMS, 'streamEvents', 'Each event of a stream is a JSON-RPC response with the id of the request.', 'Wrap each event.'),
  row('S-44b', 'MUST', 'D', ALL, STREAMS, 'streamMembers', 'Each event is exactly one of task, message, statusUpdate and artifactUpdate.', 'Send one member per event.'),
  row('S-45', 'MAY', 'D', HTTP, STREAMS, 'earlyFailure', 'Failures before the first event have an error of their own, and no stream.', 'Wait for the first event.'),
  row('S-50', 'MUST', 'A-D', ALL, PUSH, 'pushOff', 'Without the capability pushNotifications, reading a configuration gets PushNotificationNotSupportedError.', 'Answer with -32003.'),
  row('S-50b', 'MUST', 'B-D', ALL, PUSH, 'otherPushOff', 'Without the capability pushNotifications, its other operations get PushNotificationNotSupportedError.', 'Answer with -32003.'),
  row('S-50c', 'MUST', 'A', RPC, PUSH, 'oldPushOff', 'Without the capability pushNotifications, setting a configuration gets PushNotificationNotSupportedError.', 'Answer with -32003.'),
  row('S-51', 'MUST', 'D', ALL, PUSH, 'pushUnknown', 'A push configuration of an unknown task gets TaskNotFoundError.', 'Answer with -32001.'),
  row('S-51b', 'MUST', 'D', ALL, PUSH, 'createPush', 'A push configuration gets an id.', 'Return the configuration with its id.'),
  row('S-51c', 'MUST', 'D', ALL, PUSH, 'getPush', 'A push configuration can be fetched and is listed.', 'Keep configurations until they are deleted.'),
  row('S-51d', 'MUST', 'D', ALL, PUSH, 'deletePush', 'A push configuration can be deleted, and deleted again.', 'Answer the second deletion like the first.'),
  row('S-52', 'MUST', 'D', ALL, PUSH, hidden('needs an address that the agent can call'), 'Each push configuration gets at least one delivery.', 'Deliver each update.'),
  row('S-53', 'SHOULD', 'B-D', ALL, PUSH, 'innerWebhook', 'A webhook in the network of the agent is refused.', 'Check the address of webhooks.'),
  row('S-54', 'SHOULD', 'D', ALL, PUSH, hidden('needs an address that the agent can call'), 'A delivery has the version in which its configuration was created.', 'Keep the version with the configuration.'),
  row('S-60', 'MUST', 'D', ALL, SECURITY, 'extendedCardOff', 'Without the capability, the extended card gets UnsupportedOperationError.', 'Answer with -32004.'),
  row('S-60d', 'MUST', 'C', RPC, SECURITY, 'extendedCardOff', 'Without an extended card, the request for it gets AuthenticatedExtendedCardNotConfiguredError or UnsupportedOperationError.', 'Answer with -32007.'),
  row('S-60b', 'MUST', 'D', ALL, SECURITY, 'extendedCardProtected', 'The extended card needs authentication.', 'Authenticate requests for it.'),
  row('S-60c', 'MUST', 'D', ALL, SECURITY, 'extendedCardGiven', 'An extended card that is declared is given, or gets ExtendedAgentCardNotConfiguredError.', 'Answer with -32007.'),
  row('S-61', 'MUST', 'A-D', ALL, SECURITY, 'authentication', 'An agent that declares security refuses a request without credentials, over HTTP with 401 and WWW-Authenticate.', 'Authenticate each request.'),
  row('S-62', 'MUST', 'D', ALL, SECURITY, hidden(TWO_CALLERS), 'Each operation is authorized before tasks are looked up.', 'Authorize first.'),
  row('S-63', 'MUST', 'D', ALL, SECURITY, hidden('needs a task that asks for a login'), 'A task that needs a login waits in its state, with an explanation.', 'Use TASK_STATE_AUTH_REQUIRED.'),
  row('SEC-02', 'SHOULD', 'A-D', ALL, SECURITY, 'noStackTraces', 'Errors tell no stack traces and no paths of the agent.', 'Send messages for the caller.'),
  row('S-70a', 'MUST', 'D', REST, ERRORS, 'restErrors', 'An error has code, status, message and an ErrorInfo with reason and domain.', 'Send google.rpc.Status as JSON.'),
  row('S-70b', 'SHOULD', 'D', RPC, ERRORS, 'rpcErrorInfo', 'The data of a JSON-RPC error has an ErrorInfo.', 'Add error.data with ErrorInfo.'),
  row('S-70c', 'MUST', 'D', REST, ERRORS, 'restStatus', 'An unknown task has status 404.', 'Map errors to their status.'),
  row('S-70d', 'MUST', 'D', GRPC, ERRORS, 'grpcErrorInfo', 'The details of a status have an ErrorInfo with reason and domain.', 'Add grpc-status-details-bin.'),
  row('S-70e', 'MUST', 'D', GRPC, ERRORS, 'grpcStatus', 'An unknown task has the status NOT_FOUND.', 'Map errors to their status.'),
  row('S-70f', 'MUST', 'A-D', RPC, ERRORS, 'rpcErrorForm', 'A JSON-RPC error has a number as code and a message.', 'Complete the error.'),
  row('S-71a', 'MUST', 'A-D', RPC, ERRORS, 'parseError', 'A body that is not JSON gets -32700.', 'Answer with -32700.'),
  row('S-71b', 'MUST', 'A-D', RPC, ERRORS, 'notRequest', 'An object that is not a request gets -32600.', 'Answer with -32600.'),
  row('S-71c', 'MUST', 'A-D', RPC, ERRORS, 'unknownMethod', 'An unknown method gets -32601.', 'Answer with -32601.'),
  row('S-71d', 'MUST', 'A-D', RPC, ERRORS, 'ids', 'The id of a request comes back exactly.', 'Copy the id with its type.'),
  row('S-71e', 'MUST', 'A-D', RPC, ERRORS, 'batch', 'A batch is refused with -32600, or answered with a list of responses.', 'Answer arrays with -32600.'),
  row('S-71f', 'MUST', 'A-D', RPC, ERRORS, 'invalidParams', 'A request for a task without an id gets -32602.', 'Answer with -32602.'),
  row('S-71g', 'MUST', 'A-D', RPC, ERRORS, 'parseErrorId', 'The answer to a body that is not JSON has the id null.', 'Answer with id null.'),
  row('S-72a', 'MUST', 'D', HTTP, ERRORS, 'camelCase', 'Keys are written in camelCase.', 'Do not send snake_case keys.'),
  row('S-72b', 'MUST', 'D', HTTP, ERRORS, 'stateNames', 'States are enum names such as TASK_STATE_WORKING.', 'Use the names of ProtoJSON.'),
  row('S-72c', 'MUST', 'A-C', RPC, ERRORS, 'oldStateNames', 'States are words such as working and input-required.', 'Use the words of the version.'),
  row('S-72d', 'MUST', 'D', HTTP, ERRORS, 'roleNames', 'Roles are ROLE_USER and ROLE_AGENT.', 'Use the names of ProtoJSON.'),
  row('S-72e', 'MUST', 'A-C', RPC, ERRORS, 'oldRoleNames', 'Roles are user and agent.', 'Use the words of the version.'),
  row('S-72f', 'MUST', 'D', HTTP, ERRORS, 'timestamps', 'Timestamps are in UTC and end with Z.', 'Write timestamps as ProtoJSON does.'),
  row('S-72g', 'MUST', 'A-C', RPC, ERRORS, 'partKinds', 'Each part has its kind; in 0.1 its type.', 'Add kind to each part.'),
  row('S-73', 'MUST', 'B-D', GRPC, ERRORS, 'grpcService', 'gRPC serves the service of the declared version.', 'Serve the service of each version.'),
  row('S-73b', 'SHOULD', 'B-D', GRPC, ERRORS, 'grpcTls', 'gRPC uses TLS outside of the machine.', 'Serve gRPC with TLS.'),
  row('S-74a', 'MAY', 'A-D', RPC, ERRORS, 'trailingSlash', 'The address of JSON-RPC is accepted with a slash at its end.', 'Ignore the slash.'),
  row('S-74b', 'MAY', 'D', HTTP, ERRORS, 'otherMediaType', 'Bodies of the type application/a2a+json are accepted.', 'Accept both types of JSON.'),
  row('S-74c', 'MAY', 'D', REST, ERRORS, 'emptyBody', 'A cancellation without a body is accepted.', 'Read no body as an empty object.'),
  row('S-75', 'MUST', 'A-D', ALL, ERRORS, 'sameOverBindings', 'All bindings of a version know the same tasks.', 'Use one store for all bindings.'),
];
