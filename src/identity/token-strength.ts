/**
 * Checks the quality of a bearer token (S4-12, S4-13). A short token is an error that prevents the start. Other
 * weaknesses are warnings, because only the operator knows how exposed the gateway is. No message contains the token.
 */
export interface TokenFinding {
  readonly severity: 'error' | 'warning';
  readonly code: 'too_short' | 'short' | 'unsendable' | 'unusual' | 'repeated' | 'guessable' | 'diversity' | 'entropy';
  readonly message: string;
}

const TOKEN_MIN_LENGTH = 16;
const TOKEN_GOOD_LENGTH = 32;
export const TOKEN_MIN_ENTROPY = 64;
const TOKEN_MIN_DISTINCT = 8;

/** The fix for any finding. */
export const TOKEN_FIX = 'use a random one, such as the output of: openssl rand -hex 32';

const GUESSABLE = ['password', 'passwd', 'secret', 'token', 'admin', 'test', '123456', 'qwerty', 'changeme', 'letmein'];

/** RFC 6750: the characters that may follow `Bearer `. */
const BEARER = /^[A-Za-z0-9\-._~+/]+=*$/;

export function assessToken(token: string): TokenFinding[] {
  const findings: TokenFinding[] = [];
  const error = (code: TokenFinding['code'], message: string) => findings.push({ severity: 'error', code, message });
  const warn = (code: TokenFinding['code'], message: string) => findings.push({ severity: 'warning', code, message });

  const length = [...token].length;
  if (length < TOKEN_MIN_LENGTH) {
    error('too_short', `has ${length} characters; at least ${TOKEN_MIN_LENGTH} are required`);
  } else if (length < TOKEN_GOOD_LENGTH) {
    warn('short', `has ${length} characters; at least ${TOKEN_GOOD_LENGTH} are recommended`);
  }
  if (/[^\x21-\x7e]/.test(token)) {
    error('unsendable', 'contains spaces or characters outside ASCII, which cannot be sent in an Authorization header');
  } else if (token !== '' && !BEARER.test(token)) {
    warn(
      'unusual',
      'contains characters that RFC 6750 does not allow in a bearer token; some clients may refuse to send it',
    );
  }
  if (length < TOKEN_MIN_LENGTH) return findings;

  const distinct = new Set(token).size;
  const word = GUESSABLE.find((guess) => token.toLowerCase().includes(guess));
  if (distinct === 1) {
    warn('repeated', 'is one character repeated');
    return findings;
  }
  if (word !== undefined) warn('guessable', `contains the guessable word ${JSON.stringify(word)}`);
  if (distinct < TOKEN_MIN_DISTINCT) {
    warn('diversity', `has only ${distinct} different characters`);
  }
  const bits = Math.floor(tokenEntropy(token));
  if (bits < TOKEN_MIN_ENTROPY) {
    warn('entropy', `has about ${bits} bits of entropy; at least ${TOKEN_MIN_ENTROPY} are needed, 128 are recommended`);
  }
  return findings;
}

/**
 * Estimates the entropy of a token in bits: the Shannon entropy of its characters, counted only for characters that do
 * not follow from the characters before them. Repeated blocks and runs such as `abcd` or `4321` therefore add nothing.
 */
export function tokenEntropy(token: string): number {
  const block = [...token.slice(0, period(token))];
  const counts = new Map<string, number>();
  for (const char of block) counts.set(char, (counts.get(char) ?? 0) + 1);
  let bitsPerCharacter = 0;
  for (const count of counts.values()) {
    const share = count / block.length;
    bitsPerCharacter -= share * Math.log2(share);
  }
  const step = (i: number): number => (block[i]?.codePointAt(0) ?? 0) - (block[i - 1]?.codePointAt(0) ?? 0);
  let surprising = 0;
  for (let i = 0; i < block.length; i++) {
    const runs = i >= 2 && Math.abs(step(i)) <= 1 && step(i) === step(i - 1);
    if (!runs) surprising += 1;
  }
  return bitsPerCharacter * surprising;
}

/** The length of the shortest block whose repetition gives the token; the token's length if there is none. */
function period(token: string): number {
  for (let length = 1; length <= token.length / 2; length++) {
    let same = true;
    for (let i = length; i < token.length && same; i++) same = token[i] === token[i - length];
    if (same) return length;
  }
  return token.length;
}
