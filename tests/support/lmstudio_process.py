"""The fake LM Studio as a program: `python -m tests.support.lmstudio_process PORT HOST [cors]`."""

import asyncio
import signal
import sys

from tests.support.fake_lmstudio import FakeLmStudio


async def _serve(port: int, host: str, has_cors: bool) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    studio = FakeLmStudio(port=port, host=host, has_cors=has_cors)
    await studio.start()
    await ended.wait()
    await studio.stop()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2], "cors" in sys.argv[3:]))
