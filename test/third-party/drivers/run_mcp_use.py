"""The client of mcp-use, without an agent and its model."""

import asyncio
import sys

from jobs import called, run_jobs, text_of
from mcp_use import MCPClient


async def main(url):
    client = MCPClient.from_dict({"mcpServers": {"parley": {"url": url}}})
    session = await client.create_session("parley")

    async def names():
        return [tool.name for tool in await session.list_tools()]

    async def perform(job):
        if job["kind"] == "call":
            return called(await session.call_tool(job["name"], job["arguments"]))
        if job["kind"] == "read":
            return text_of((await session.read_resource(job["uri"])).contents)
        result = await session.get_prompt(job["name"], job["arguments"])
        return text_of([message.content for message in result.messages])

    await run_jobs(names, perform)
    await client.close_all_sessions()


asyncio.run(main(sys.argv[1]))
