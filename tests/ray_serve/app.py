"""A Ray Serve application that serves OpenAI's API: replicas that sleep as a GPU computes, and answer.

    python app.py REPLICAS SLOTS_OF_EACH SECONDS MODEL

Prints "ready PORT" and serves on loopback until its standard input ends. Runs in Ray's own environment.
"""

import asyncio
import os
import socket
import sys
from typing import Any

import ray
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from ray import serve

OBJECT_STORE_BYTES = 80 * 2**20  # the least that Ray takes is about 75 MB
api = FastAPI()


@serve.deployment
@serve.ingress(api)
class Model:
    """One replica."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name, self.seconds = name, seconds

    @api.get("/v1/models")
    async def models(self) -> dict[str, Any]:
        """One model, without anything that would tell what it is made of."""
        return {"object": "list", "data": [{"id": self.name, "object": "model"}]}

    @api.post("/v1/chat/completions")
    async def chat(self, request: Request) -> Any:
        """Answer with the number of this replica's process."""
        if (await request.json())["model"] != self.name:
            return JSONResponse({"error": {"message": "no such model"}}, 404)
        await asyncio.sleep(self.seconds)
        message = {"role": "assistant", "content": f"replica {os.getpid()}"}
        return {
            "object": "chat.completion",
            "model": self.name,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 40, "total_tokens": 45},
        }


def main(replicas: int, slots: int, seconds: float, name: str) -> None:
    """Serve until standard input ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=OBJECT_STORE_BYTES)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    options = {
        "num_replicas": replicas,
        "max_ongoing_requests": slots,
        "ray_actor_options": {"num_cpus": 0.1},
    }
    serve.run(Model.options(**options).bind(name, seconds))
    print("ready", port, flush=True)  # noqa: T201
    sys.stdin.read()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
