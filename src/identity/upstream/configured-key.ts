import type {
  ApiKeyPlace,
  Credential,
  CredentialSource,
  CredentialSourceFactory,
  CredentialTarget,
} from '../upstream-credentials.js';

/** `auth.apiKey`: a fixed key or token in a header, or in the place that an agent's card names. */
export const apiKeySource: CredentialSourceFactory = (target) => {
  const { auth } = target;
  if (auth?.apiKey === undefined) return undefined;
  return auth.header === undefined && target.apiKeyPlace
    ? new CardApiKey(target, auth.apiKey)
    : fixed(withApiKey(target.configured, auth.apiKey, configuredPlace(auth.header, auth.prefix)));
};

/** `auth.username` and `auth.password`: HTTP Basic authentication (RFC 7617). */
export const basicSource: CredentialSourceFactory = ({ auth, configured }) => {
  if (auth?.username === undefined) return undefined;
  const pair = Buffer.from(`${auth.username}:${auth.password ?? ''}`).toString('base64');
  return fixed({ key: '', headers: [...configured.headers, 'Authorization', `Basic ${pair}`] });
};

const fixed = (credential: Credential): CredentialSource => ({ for: () => credential });

const configuredPlace = (name = 'Authorization', prefix?: string): ApiKeyPlace => ({
  in: 'header',
  name,
  prefix: prefix ?? (name.toLowerCase() === 'authorization' ? 'Bearer ' : ''),
});

/** The card of the agent names the place; it is known only after the card was read, and a new card may change it. */
class CardApiKey implements CredentialSource {
  private made: { readonly place: ApiKeyPlace; readonly credential: Credential } | undefined;

  constructor(
    private readonly target: CredentialTarget,
    private readonly apiKey: string,
  ) {}

  for(): Credential {
    const place = this.target.apiKeyPlace?.();
    if (!place) return this.target.configured;
    const { made } = this;
    if (made && made.place.in === place.in && made.place.name === place.name && made.place.prefix === place.prefix)
      return made.credential;
    const credential = withApiKey(this.target.configured, this.apiKey, place);
    this.made = { place, credential };
    return credential;
  }
}

function withApiKey(configured: Credential, apiKey: string, place: ApiKeyPlace): Credential {
  const { headers } = configured;
  switch (place.in) {
    case 'header':
      return { key: '', headers: [...headers, place.name, `${place.prefix}${apiKey}`] };
    case 'cookie':
      return { key: '', headers: [...headers, 'Cookie', `${place.name}=${encodeURIComponent(apiKey)}`] };
    case 'query':
      return { key: '', headers, query: `${encodeURIComponent(place.name)}=${encodeURIComponent(apiKey)}` };
  }
}
