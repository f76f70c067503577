// An identity provider for one test: it prints its address, and gives `ci` a token for each scope.
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'ci', client_secret: 'not-a-secret', grant_types: ['client_credentials'],
      redirect_uris: [], response_types: [],
    }],
    extraTokenClaims: (_, token) => ({ tenant: 'acme', roles: token.scope?.split(' ') ?? [] }),
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => 'urn:glasshouse',
        getResourceServerInfo: () => ({
          scope: 'viewer operator', audience: 'glasshouse', accessTokenFormat: 'jwt',
          accessTokenTTL: 300, jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  });
  server.on('request', provider.callback());
  console.log(issuer);
});
