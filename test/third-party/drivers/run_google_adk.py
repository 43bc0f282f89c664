"""The MCP toolset of Google's ADK, without an agent and its model."""

import asyncio
import sys
from unittest.mock import MagicMock

from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
from jobs import run_jobs, text_of


async def main(url):
    toolset = McpToolset(connection_params=StreamableHTTPConnectionParams(url=url))
    tools = {tool.name: tool for tool in await toolset.get_tools()}

    async def names():
        return list(tools)

    async def perform(job):
        if job["kind"] == "call":
            result = await tools[job["name"]].run_async(args=job["arguments"], tool_context=MagicMock())
            if result.get("isError") or "content" not in result:
                raise RuntimeError(str(result))
            return "\n".join(block.get("text", "") for block in result["content"])
        # It finds resources by their names, not their URIs.
        return text_of(await toolset.read_resource(job["name"]))

    await run_jobs(names, perform)
    await toolset.close()


asyncio.run(main(sys.argv[1]))
