"""The MCP toolset of Pydantic AI, without an agent and its model."""

import asyncio
import json
import sys

from jobs import run_jobs
from pydantic_ai.mcp import MCPToolset


def plain(found):
    """Strings and parsed JSON as they are; parts of a message by their content."""
    if isinstance(found, list):
        return "\n".join(plain(part) for part in found)
    found = getattr(found, "content", found)
    return found if isinstance(found, str) else json.dumps(found, default=str, separators=(",", ":"))


async def main(url):
    async with MCPToolset(url) as toolset:

        async def names():
            return [tool.name for tool in await toolset.list_tools()]

        async def perform(job):
            if job["kind"] == "call":
                return plain(await toolset.direct_call_tool(job["name"], job["arguments"]))
            if job["kind"] == "read":
                return plain(await toolset.read_resource(job["uri"]))
            result = await toolset.get_prompt(job["name"], job["arguments"])
            return "\n".join(plain(message.content) for message in result.messages)

        await run_jobs(names, perform)


asyncio.run(main(sys.argv[1]))
