import socket

from pairproxy.takeover.asking import answers, ask, is_refused
from tests.support import engine_scripts
from tests.support.engine_thread import in_thread
from tests.support.fake_engine import EngineConnection, ParsedRequest
from tests.support.fake_ollama import ollama_surface
from tests.support.free_ports import free_port


async def anything(_: ParsedRequest, connection: EngineConnection) -> None:
    """LM Studio's answer to what it does not know."""
    await connection.send(engine_scripts.json_bytes({"error": "Unexpected endpoint or method. (GET /x)"}))


async def models(_: ParsedRequest, connection: EngineConnection) -> None:
    """LM Studio's list."""
    await connection.send(engine_scripts.json_bytes({"object": "list", "data": []}))


def test_ollama_is_known_by_its_greeting() -> None:
    """Another web server is not it."""
    with in_thread(ollama_surface()) as engine:
        assert answers("ollama", engine.port)
        assert not answers("lmstudio", free_port())
    with in_thread(anything) as other:
        assert not answers("ollama", other.port)


def test_lm_studio_is_known_by_its_list() -> None:
    """Its status says nothing: it is 200 to everything."""
    with in_thread(models) as engine:
        assert answers("lmstudio", engine.port)
    with in_thread(anything) as other:
        assert not answers("lmstudio", other.port)


def test_a_silent_port_is_not_waited_for() -> None:
    """It is neither an engine nor refused."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert ask(port, "/", timeout_s=0.1) is None
        assert not is_refused(port)
    assert is_refused(port)
