from jobs import run_jobs


async def add(client):
    tools = {tool.name: tool for tool in await client.get_tools()}

    async def names():
        return list(tools)

    async def perform(job):
        if job["kind"] == "call":
            found = await tools[job["name"]].ainvoke(job["arguments"])
            return found if isinstance(found, str) else "\n".join(block.get("text", "") for block in found)
        if job["kind"] == "read":
            return "\n".join(blob.as_string() for blob in await client.get_resources("parley", uris=job["uri"]))
        messages = await client.get_prompt("parley", job["name"], arguments=job["arguments"])
        return "\n".join(str(message.content) for message in messages)

    await run_jobs(names, perform)
