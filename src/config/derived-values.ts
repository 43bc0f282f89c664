/**
 * Completes a configuration whose keys were read one by one: checks the rules over several keys, and sets the values
 * that depend on other keys or files.
 */
import { authRules } from './auth-rules.js';
import { builtinAuthRules } from './builtin-auth-rules.js';
import { type ConfigWithTimeouts, CrossKeyRules } from './cross-key-rules.js';
import { EnvFileProblem, readEnvFile } from './env-file.js';
import { evaluatorRules } from './evaluator-schema.js';
import { pluginRules } from './plugin-schema.js';
import { withUrl } from './replica-rules.js';
import type { AgentConfig, Config, ServerConfig, WrittenConfig } from './schema.js';
import { telemetryRules } from './telemetry-schema.js';
import { CONNECT } from './upstream-schema.js';
import { join, type Reading } from './validate.js';

type WrittenServer = WrittenConfig['servers'][string];
type WrittenAgent = WrittenConfig['agents'][string];

/** Completes the whole configuration. `listens` is false for `parley stdio`, which opens no port. */
export function complete(written: WrittenConfig, reading: Reading, options: { listens: boolean }): Config {
  const { connect } = written.timeouts;
  const connectTimes = { connect: connect ?? CONNECT.url, connectCommand: connect ?? CONNECT.command };
  const timeouts = { ...written.timeouts, ...connectTimes };
  const config = { ...written, timeouts };
  const rules = new CrossKeyRules(config, reading);
  if (options.listens) {
    rules.exposure();
    rules.listenerTls();
    rules.clearText();
  }
  rules.tokens();
  authRules(written, reading);
  builtinAuthRules(written, reading);
  telemetryRules(written, reading);
  evaluatorRules(written, reading);
  pluginRules(written, reading);
  rules.cors();
  rules.conditions();
  rules.views();
  rules.times('timeouts', written.timeouts);
  rules.anyUpstream();
  const servers: Record<string, ServerConfig> = Object.create(null);
  const agents: Record<string, AgentConfig> = Object.create(null);
  for (const [name, server] of Object.entries(written.servers)) servers[name] = serverOf(name, server, config, rules);
  for (const [name, agent] of Object.entries(written.agents)) agents[name] = agentOf(name, agent, config, rules);
  return { ...config, servers, agents };
}

/** Completes one server that is added to a configuration in effect. Problems go to `reading`. */
export function completeServer(name: string, server: WrittenServer, config: Config, reading: Reading): ServerConfig {
  const rules = new CrossKeyRules(config, reading);
  rules.serverBesideAgents(name);
  rules.serverBesideViews(name);
  return serverOf(name, server, config, rules);
}

/** Completes one agent that is added to a configuration in effect. Problems go to `reading`. */
export function completeAgent(name: string, agent: WrittenAgent, config: Config, reading: Reading): AgentConfig {
  return agentOf(name, agent, config, new CrossKeyRules(config, reading));
}

function serverOf(
  name: string,
  written: WrittenServer,
  config: ConfigWithTimeouts,
  rules: CrossKeyRules,
): ServerConfig {
  const { envFile, ...server } = withUrl(written);
  rules.server(name, { ...server, envFile });
  const fromFile = envFile === undefined ? {} : variablesOf(name, envFile, server.enabled, rules);
  const timeouts = timeoutsOf(server, config.timeouts);
  rules.times(join(join('servers', name), 'timeouts'), timeouts);
  return {
    ...server,
    env: { ...fromFile, ...server.env },
    invocation: server.invocation && config.mcp.invocation,
    pin: server.pin ?? config.pin,
    timeouts,
  };
}

function agentOf(name: string, agent: WrittenAgent, config: ConfigWithTimeouts, rules: CrossKeyRules): AgentConfig {
  rules.agent(name, agent);
  const timeouts = timeoutsOf(agent, config.timeouts);
  rules.times(join(join('agents', name), 'timeouts'), timeouts);
  return { ...agent, pin: agent.pin ?? config.pin, timeouts };
}

function variablesOf(server: string, file: string, enabled: boolean, rules: CrossKeyRules): Record<string, string> {
  try {
    return readEnvFile(file);
  } catch (error) {
    if (!(error instanceof EnvFileProblem)) throw error;
    rules.envFile(error, server, enabled);
    return {};
  }
}

/** The timeouts of a server or agent: its own, or those of the gateway. */
function timeoutsOf(
  { timeouts, command }: Pick<WrittenServer, 'timeouts'> & { readonly command?: string | undefined },
  { connect, connectCommand, call, callMax }: Config['timeouts'],
): ServerConfig['timeouts'] {
  // If a server sets only one of the two limits of a call, the gateway's other limit is adjusted to it.
  const callTimeout = timeouts.call ?? Math.min(call, timeouts.callMax ?? call);
  const maximum = timeouts.callMax ?? Math.max(callMax, callTimeout);
  const connectTimeout = timeouts.connect ?? (command === undefined ? connect : connectCommand);
  return { connect: connectTimeout, call: callTimeout, callMax: maximum };
}
