"""An oracle that is not ours and not in Python: scripts of varnishtest against the client port of a daemon.

Each script plays the client and the engine, byte by byte, and says what each has to see. The daemon finds an
Ollama there whose listings are answered here; all else it is asked goes to the script as it came.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import engine_scripts as scripts
from tests.support.daemons import Daemons, Node, settings
from tests.support.engine_thread import in_thread
from tests.support.fake_engine import EngineConnection, ParsedRequest
from tests.support.free_ports import free_port

SCRIPTS = sorted(Path(__file__).parent.glob("*.vtc"))
IN_FAST_TIER = "plain"
LARGE = "a" * 35_000  # bytes of one header: fits into 64 kB, three of it do not
DEADLINE_S = 60.0
PROBES = ("/", "/api/version", "/api/tags", "/api/ps", "/api/show", "/v1/models")

needs_varnishtest = pytest.mark.skipif(
    shutil.which("varnishtest") is None, reason="varnishtest is not installed (Debian: apt install varnish)"
)


class Behind:
    """Plays an Ollama with one model by handing what is no listing to the engine of a script."""

    def __init__(self) -> None:
        self.port = free_port()
        self._listings = scripts.ollama({"m:1": "a" * 64}, chat=self.hand_over, loaded=["m:1"])

    async def __call__(self, request: ParsedRequest, connection: EngineConnection) -> None:
        """Answer one request."""
        is_listing = request.path in PROBES
        await (self._listings if is_listing else self.hand_over)(request, connection)

    async def hand_over(self, request: ParsedRequest, connection: EngineConnection) -> None:
        """Send the request's bytes to the script, and back what it answers, until it ends the connection."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except ConnectionRefusedError:  # no script is running: the daemon measures a new engine
            await scripts.json_reply({"done": True})(request, connection)
            return
        writer.write(request.raw)
        try:
            while data := await reader.read(65536):
                await connection.send(data)
        finally:
            writer.close()
        connection.close()


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Behind, Node]]:
    """What stands behind a daemon, and the daemon."""
    behind = Behind()
    with in_thread(behind) as engine, Daemons(tmp_path_factory.mktemp("oracle")) as daemons:
        daemons.home("A", settings("ollama") + f'url = "{engine.url}"\n')
        (node,) = daemons.start("A")
        daemons.until_connected()
        yield behind, node


@needs_varnishtest
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=script.stem, marks=[] if script.stem == IN_FAST_TIER else pytest.mark.slow)
        for script in SCRIPTS
    ],
)
def test_the_oracle_agrees(script: Path, oracle: tuple[Behind, Node], tmp_path: Path) -> None:
    """Client and engine see what the script says they see."""
    behind, node = oracle
    text = script.read_text()
    macros = {"proxy": f"127.0.0.1:{node.port}", "engine": f"127.0.0.1:{behind.port}", "large": LARGE}
    for name, value in macros.items():  # its own macros hold no more than 512 bytes
        text = text.replace(f"${{{name}}}", value)
    written = tmp_path / script.name
    written.write_text(text)
    ran = subprocess.run(
        ["varnishtest", str(written)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(tmp_path)},
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-1000:]


def test_there_are_enough_scripts() -> None:
    """Each says in its first line what has to be true."""
    assert len(SCRIPTS) >= 20
    assert all(script.read_text().startswith('vtest "') for script in SCRIPTS)
