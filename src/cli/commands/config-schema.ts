import { renderJsonSchema } from '../../config/json-schema.js';
import { type Command, HELP } from '../command.js';

export const CONFIG_SCHEMA: Command = {
  name: 'config schema',
  summary: 'Print the JSON Schema of the configuration file, for editors.',
  details:
    'Editors complete and check parley.yaml with this schema. Store it as parley.schema.json; in VS Code with the YAML\n' +
    'extension, write # yaml-language-server: $schema=parley.schema.json in the first line of the file.',
  flags: [HELP],
  examples: ['parley config schema'],
  run: ({ io }) => {
    io.stdout(renderJsonSchema());
    return 0;
  },
};
