/** The key of servers that are HTTP APIs with an OpenAPI document. */
import path from 'node:path';
import { hideCredentials } from '../identity/mask-secrets.js';
import { Refusal, scalarField } from './field.js';

const FIX = 'write the path or the URL of an OpenAPI 3 document, such as ./petstore.yaml';

/** A path, which is made absolute, or an http or https URL. */
export const openapi = scalarField<string, { readonly description: string }>(
  {
    type: 'path or URL',
    read(value, context) {
      const written = String(value).trim();
      if (written === '' || /[\0\r\n]/.test(written)) return new Refusal('is neither a path nor a URL', FIX);
      if (/^https?:\/\//i.test(written)) return URL.canParse(written) ? written : new Refusal('is not a URL', FIX);
      if (/^[a-z][a-z0-9+.-]+:\/\//i.test(written)) return new Refusal('has a scheme other than http and https', FIX);
      return path.resolve(context.directory, written);
    },
    show: hideCredentials,
  },
  {
    description:
      'An OpenAPI 3 document, as a path or URL: the server is an HTTP API, and its operations are the tools. `url` is the base ' +
      'URL of the API; default: the URL in the document.',
  },
);
