/** The two gRPC services: the operation, the request message and the response message of each method. */
import { type DialectId, NATIVE, type Version } from '../dialect.js';
import { isStreaming, type Operation } from '../model.js';
import { Codec } from './message-codec.js';
import { V0_3, V1 } from './schemas.js';

export interface GrpcMethod {
  readonly operation: Operation;
  readonly path: string;
  readonly request: string;
  readonly response: string;
  readonly streams: boolean;
}

export interface GrpcService {
  readonly name: string;
  /** The dialect of the service's ProtoJSON. */
  readonly dialect: DialectId;
  readonly codec: Codec;
  readonly methods: readonly GrpcMethod[];
}

type Row = readonly [operation: Operation, method: string, request: string, response: string];

function service(name: string, dialect: DialectId, codec: Codec, rows: readonly Row[]): GrpcService {
  return {
    name,
    dialect,
    codec,
    methods: rows.map(([operation, method, request, response]) => ({
      operation,
      path: `/${name}/${method}`,
      request,
      response,
      streams: isStreaming(operation),
    })),
  };
}

export const SERVICE_1_0 = service('lf.a2a.v1.A2AService', NATIVE, new Codec(V1), [
  ['SendMessage', 'SendMessage', 'SendMessageRequest', 'SendMessageResponse'],
  ['SendStreamingMessage', 'SendStreamingMessage', 'SendMessageRequest', 'StreamResponse'],
  ['GetTask', 'GetTask', 'GetTaskRequest', 'Task'],
  ['ListTasks', 'ListTasks', 'ListTasksRequest', 'ListTasksResponse'],
  ['CancelTask', 'CancelTask', 'CancelTaskRequest', 'Task'],
  ['SubscribeToTask', 'SubscribeToTask', 'SubscribeToTaskRequest', 'StreamResponse'],
  [
    'CreateTaskPushNotificationConfig',
    'CreateTaskPushNotificationConfig',
    'TaskPushNotificationConfig',
    'TaskPushNotificationConfig',
  ],
  [
    'GetTaskPushNotificationConfig',
    'GetTaskPushNotificationConfig',
    'GetTaskPushNotificationConfigRequest',
    'TaskPushNotificationConfig',
  ],
  [
    'ListTaskPushNotificationConfigs',
    'ListTaskPushNotificationConfigs',
    'ListTaskPushNotificationConfigsRequest',
    'ListTaskPushNotificationConfigsResponse',
  ],
  [
    'DeleteTaskPushNotificationConfig',
    'DeleteTaskPushNotificationConfig',
    'DeleteTaskPushNotificationConfigRequest',
    'Empty',
  ],
  ['GetExtendedAgentCard', 'GetExtendedAgentCard', 'GetExtendedAgentCardRequest', 'AgentCard'],
]);

export const SERVICE_0_3 = service('a2a.v1.A2AService', '0.3-proto', new Codec(V0_3), [
  ['SendMessage', 'SendMessage', 'SendMessageRequest', 'SendMessageResponse'],
  ['SendStreamingMessage', 'SendStreamingMessage', 'SendMessageRequest', 'StreamResponse'],
  ['GetTask', 'GetTask', 'GetTaskRequest', 'Task'],
  ['CancelTask', 'CancelTask', 'CancelTaskRequest', 'Task'],
  ['SubscribeToTask', 'TaskSubscription', 'TaskSubscriptionRequest', 'StreamResponse'],
  [
    'CreateTaskPushNotificationConfig',
    'CreateTaskPushNotificationConfig',
    'CreateTaskPushNotificationConfigRequest',
    'TaskPushNotificationConfig',
  ],
  [
    'GetTaskPushNotificationConfig',
    'GetTaskPushNotificationConfig',
    'GetTaskPushNotificationConfigRequest',
    'TaskPushNotificationConfig',
  ],
  [
    'ListTaskPushNotificationConfigs',
    'ListTaskPushNotificationConfig',
    'ListTaskPushNotificationConfigRequest',
    'ListTaskPushNotificationConfigResponse',
  ],
  [
    'DeleteTaskPushNotificationConfig',
    'DeleteTaskPushNotificationConfig',
    'DeleteTaskPushNotificationConfigRequest',
    'Empty',
  ],
  ['GetExtendedAgentCard', 'GetAgentCard', 'GetAgentCardRequest', 'AgentCard'],
]);

export const SERVICES: readonly GrpcService[] = [SERVICE_1_0, SERVICE_0_3];

/** The gRPC service of an agent of this version. */
export const serviceOf = (version: Version): GrpcService => (version === '1.0' ? SERVICE_1_0 : SERVICE_0_3);
