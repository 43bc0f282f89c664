from jobs import called, run_jobs, text_of


async def add(client):
    async def names():
        found, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            found += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def perform(job):
        if job["kind"] == "call":
            return called(await client.call_tool(job["name"], job["arguments"]))
        if job["kind"] == "read":
            return text_of((await client.read_resource(job["uri"])).contents)
        result = await client.get_prompt(job["name"], job["arguments"])
        return text_of([message.content for message in result.messages])

    await run_jobs(names, perform)
