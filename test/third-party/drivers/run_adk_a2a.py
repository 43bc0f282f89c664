"""A remote agent of Google's ADK: reads a card, sends a message, prints the answer or the refusal."""

import asyncio
import sys

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import InMemoryRunner
from google.genai import types


async def main(card):
    runner = InMemoryRunner(agent=RemoteA2aAgent(name="desk", agent_card=card), app_name="test")
    session = await runner.session_service.create_session(app_name="test", user_id="ada")
    message = types.Content(role="user", parts=[types.Part(text='{"expression": "6*7"}')])
    async for event in runner.run_async(user_id="ada", session_id=session.id, new_message=message):
        for part in (event.content and event.content.parts) or []:
            if part.text:
                print("ANSWER", part.text)
        if event.error_message:
            print("ERROR", event.error_message)
    await runner.close()


asyncio.run(main(sys.argv[1]))
