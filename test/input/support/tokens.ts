/** Two callers with bearer tokens. */
export const ADA = 'ada-0123456789-Kj8sLq2vXz7mNw4pRt6y';
export const BOB = 'bob-9876543210-Hf3dGk5bVc1nMq8wZx0e';

/** The tokens as the gateway is configured with them. */
export const AUTH = {
  tokens: [
    { name: 'ada', token: ADA },
    { name: 'bob', token: BOB },
  ],
};

export const as = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
