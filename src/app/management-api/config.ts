/** `/api/v1/config`: shows the configuration, and reads it again. */
import { showConfig } from '../../config/show.js';
import { hideCredentials } from '../../identity/mask-secrets.js';
import type { Operation } from '../../inbound/api/operation.js';
import { ref } from '../../inbound/api/schemas.js';
import { ProtocolError } from '../../protocol/errors.js';
import type { ConfigReloader } from '../config-reloader.js';
import type { Runtime } from '../runtime.js';

export interface ConfigOperationsOptions {
  readonly runtime: Runtime;
  /**
   * Reads the configuration again and applies it, or only compares it; absent if the gateway has no configuration file.
   */
  readonly reloader: Pick<ConfigReloader, 'reload'> | undefined;
}

export function configOperations({ runtime, reloader }: ConfigOperationsOptions): Operation[] {
  const common = { tag: 'Configuration', access: 'admin' } as const;
  return [
    {
      ...common,
      method: 'GET',
      path: '/api/v1/config',
      description: 'The configuration in effect, with every secret masked',
      answer: { description: 'The configuration', schema: ref('Anything') },
      run: () => ({ body: showConfig(runtime.live(), hideCredentials) }),
    },
    {
      ...common,
      method: 'POST',
      path: '/api/v1/config/reload',
      description: 'Reads the configuration again and applies it; an invalid one changes nothing',
      body: {
        type: 'object',
        additionalProperties: false,
        properties: { preview: { type: 'boolean', description: 'Only compares, and changes nothing.' } },
      },
      optionalBody: true,
      answer: { description: 'The changes, and the keys that need a restart', schema: ref('Anything') },
      run: async ({ body, by }) => {
        if (!reloader)
          throw new ProtocolError(
            'unsupported_operation',
            'This gateway was started without a configuration to read again',
          );
        const result = await reloader.reload({ by, preview: body['preview'] === true });
        if (result.outcome === 'invalid')
          throw new ProtocolError('invalid_settings', 'The configuration has errors and was not applied', {
            data: { ...result },
          });
        if (result.outcome === 'failed')
          throw new ProtocolError('internal', 'The configuration was not applied completely; the log says why');
        return { body: result };
      },
    },
  ];
}
