"""Runs the jobs of the test with a connected client, and tells the results to the test line by line."""

import json
import os
import sys
import traceback


def tell(**facts):
    print("RESULT " + json.dumps(facts), flush=True)


async def run_jobs(names, perform):
    """`names` returns the names of all tools; `perform` does one job and returns its text."""
    tell(tools=await names())
    with open(os.environ["JOBS"], encoding="utf-8") as file:
        jobs = json.load(file)
    for job in jobs:
        try:
            tell(job=job["id"], text=await perform(job))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            tell(job=job["id"], error=f"{type(error).__name__}: {error}")


def text_of(content):
    """The text of content blocks of the protocol: one or many, with embedded resources."""
    blocks = content if isinstance(content, (list, tuple)) else [content]
    texts = []
    for block in blocks:
        found = block if isinstance(block, str) else getattr(block, "text", None)
        if found is None and hasattr(block, "resource"):
            found = getattr(block.resource, "text", None)
        texts.append(found if found is not None else repr(block))
    return "\n".join(texts)


def called(result):
    """The text of a tool's result; a result that says it is an error is one."""
    if getattr(result, "is_error", False) or getattr(result, "isError", False):
        raise RuntimeError(text_of(result.content))
    return text_of(result.content)
