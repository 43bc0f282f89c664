from jobs import called, run_jobs, text_of


async def add(server):
    async def names():
        return [tool.name for tool in await server.list_tools()]

    async def perform(job):
        if job["kind"] == "call":
            return called(await server.call_tool(job["name"], job["arguments"]))
        if job["kind"] == "read":
            return text_of((await server.read_resource(job["uri"])).contents)
        result = await server.get_prompt(job["name"], job["arguments"])
        return text_of([message.content for message in result.messages])

    await run_jobs(names, perform)
