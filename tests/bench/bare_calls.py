"""The peer of a call: litellm alone. Reads a line of JSON for each block of calls, writes a line with its seconds.

Run as `python -m tests.bench.bare_calls ADDRESS`; a block is `{"messages": […], "calls": N, "stream": bool}`, its
answer `{"wall": [seconds of each call], "cpu": seconds of all}`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

OPTIONS: dict[str, Any] = {"model": "openai/gpt-4o-mini", "api_key": "x", "timeout": 60, "max_retries": 0}


async def _call(litellm: Any, address: str, block: dict[str, Any]) -> float:
    start = time.perf_counter()
    stream = {"stream": True, "stream_options": {"include_usage": True}} if block["stream"] else {}
    reply = await litellm.acompletion(
        messages=block["messages"], tools=block["tools"], api_base=address, **OPTIONS, **stream
    )
    if block["stream"]:
        async for _ in reply:
            pass
    return time.perf_counter() - start


async def _main(address: str) -> None:
    import litellm

    litellm.suppress_debug_info = True
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        block = json.loads(line)
        cpu = time.process_time()
        wall = [await _call(litellm, address, block) for _ in range(block["calls"])]
        print(json.dumps({"wall": wall, "cpu": time.process_time() - cpu}), flush=True)
        await asyncio.sleep(0.5)  # litellm's own bookkeeping runs late; it is no part of the next block


if __name__ == "__main__":
    os.environ.update({"LITELLM_MODE": "PRODUCTION", "LITELLM_LOCAL_MODEL_COST_MAP": "True"})
    asyncio.run(_main(sys.argv[1]))
