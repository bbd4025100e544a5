"""A real Ray Serve application as the engine of one node: one big node with many slots."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.ray_serve.cluster import INSTALL_S, READY_S, STOP_S, interpreter, serving
from tests.support.asking import CHAT, MODEL, Asker, Got
from tests.support.daemons import Daemons, settings

ITS_NAME = "Org/Cluster-Model"
REPLICAS, SLOTS_OF_EACH = 2, 2
SERVICE_S = 1.0
REQUESTS = 1 + REPLICAS * SLOTS_OF_EACH
TOKENS = 40


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_S + READY_S + STOP_S + 120)
def test_requests_flow_over_to_a_ray_serve_cluster_when_this_machine_is_full(tmp_path: Path) -> None:
    """The small engine here takes the first request, both replicas there take what comes beside it."""
    python = interpreter()
    began = time.monotonic()
    with serving(python, REPLICAS, SLOTS_OF_EACH, SERVICE_S, ITS_NAME) as port, Daemons(tmp_path) as daemons:
        print(f"Ray Serve was ready after {time.monotonic() - began:.1f} s")  # noqa: T201
        # 40 tokens take 0.67 s here and, as far as is known before the first, 0.8 s there.
        daemons.home("A", settings(paced={"decode": 60.0}))
        cluster = f'url = "http://127.0.0.1:{port}"\naliases = {{ "{MODEL}" = "{ITS_NAME}" }}\n'
        daemons.home("B", settings("openai", slots=REPLICAS * SLOTS_OF_EACH) + cluster)
        daemons.pair("A", "B")
        a, b = daemons.start("A", "B")
        daemons.until_connected()
        asker = Asker(a.port, headers={"X-Pairproxy-Run": "alone"})
        assert chat(asker).node == a.id
        asker = Asker(a.port, headers={"X-Pairproxy-Run": "full"})
        with ThreadPoolExecutor(REQUESTS) as pool:
            replies = list(pool.map(chat, [asker] * REQUESTS))
        assert [reply.status for reply in replies] == [200] * REQUESTS
        records = sorted(a.report("full").records, key=lambda one: one.dispatched_s or 0.0)
        assert [record.node for record in records] == [a.id] + [b.id] * (REQUESTS - 1)
        first_end = min(record.ended_s for record in records)
        assert all(record.dispatched_s is not None and record.dispatched_s < first_end for record in records)
        assert all(record.outcome == "done" for record in records)
        said = [reply.json() for reply in replies if reply.node == b.id]
        assert {one["model"] for one in said} == {ITS_NAME}
        assert len({one["choices"][0]["message"]["content"] for one in said}) == REPLICAS


def chat(asker: Asker) -> Got:
    """One chat by OpenAI's API."""
    messages = [{"role": "user", "content": "hello"}]
    body = {"model": MODEL, "messages": messages, "max_tokens": TOKENS}
    return asker.request("POST", CHAT["openai"], body)
