"""FastMCP's client, declaring elicitation, sampling and roots: a client that servers may ask."""

import asyncio
import sys

from fastmcp import Client
from jobs import run_jobs, text_of


async def elicit(message, response_type, params, context):
    return {"name": "an elicited name"}


async def sample(messages, params, context):
    return "a sampled answer"


async def main(url):
    async with Client(
        url, elicitation_handler=elicit, sampling_handler=sample, roots=["file:///third-party"]
    ) as client:

        async def names():
            return [tool.name for tool in await client.list_tools()]

        async def perform(job):
            if job["kind"] == "call":
                return text_of((await client.call_tool(job["name"], job["arguments"])).content)
            if job["kind"] == "read":
                return text_of(await client.read_resource(job["uri"]))
            result = await client.get_prompt(job["name"], job["arguments"])
            return text_of([message.content for message in result.messages])

        await run_jobs(names, perform)


asyncio.run(main(sys.argv[1]))
