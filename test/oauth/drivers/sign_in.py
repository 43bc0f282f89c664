"""A client of the official Python SDK. Writes one JSON object per line; the test signs in and answers on stdin."""

import asyncio
import json
import sys

import mcp
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

URL, REDIRECT = sys.argv[1:3]


def say(**facts):
    print(json.dumps(facts), flush=True)


async def answer():
    return json.loads(await asyncio.to_thread(sys.stdin.readline))


class Memory:
    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


async def redirect(url):
    say(kind="authorize", url=url)


async def callback():
    return AuthorizationCodeResult(**await answer())


async def use(memory, times):
    metadata = OAuthClientMetadata(client_name="Python test", redirect_uris=[REDIRECT])
    auth = OAuthClientProvider(URL, metadata, memory, redirect, callback)
    async with create_mcp_http_client(auth=auth) as http:
        async with mcp.Client(streamable_http_client(URL, http_client=http)) as client:
            for _ in range(times):
                listed = await client.list_tools()
                result = await client.call_tool("units__convert", {"value": 1, "from": "km", "to": "m"})
                text = " ".join(part.text for part in result.content)
                say(kind="called", tools=[tool.name for tool in listed.tools], text=text, **held(memory))
                # The SDK refreshes a token whose time is over.
                auth.context.token_expiry_time = 1


def held(memory):
    return {"access": memory.tokens.access_token, "refresh": memory.tokens.refresh_token,
            "client": memory.client.client_id}


async def main():
    memory = Memory()
    await use(memory, 2)
    await answer()
    # Everything was revoked meanwhile: the SDK has to ask for a new sign-in.
    await use(memory, 1)


asyncio.run(main())
