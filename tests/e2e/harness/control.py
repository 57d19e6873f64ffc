"""The helper's end of the command pipe, for the asyncio processes of the harness."""

import asyncio
import json
import os
import sys


def say(value):
    os.write(1, (json.dumps(value) + "\n").encode())


async def serve_commands(answer):
    """Calls answer(command) for each line on stdin and prints what it returns; ends with stdin."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        reply = answer(json.loads(line))
        if asyncio.iscoroutine(reply):
            reply = await reply
        say(reply or {})
