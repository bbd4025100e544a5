"""The embedded engine's process: llama.cpp's own server, alive as long as its daemon is.

::

    daemon -> stdin   one line of JSON, ChildSettings; then nothing, held open
    stdout -> daemon  one line of JSON, ChildReply: where it answers, or why it cannot
    stdin ends        the daemon is gone, however it went: so are we, at once

It is a process of its own because llama.cpp may crash, and because a model is unloaded most surely by
ending its process. It writes nothing else anywhere: llama.cpp's own log can hold prompts, so its standard
output and error lead nowhere, and it leaves no core file.
"""

import os
import signal
import sys
import threading
import time
from typing import Any, NoReturn
from urllib.parse import urlsplit

import msgspec

PARENT_CHECK_S = 0.5  # standard input tells at once; this is for a pipe that a third process holds open

BATCH_TOKENS = 64
"""Prompt tokens computed at once. A request that was broken off is noticed between two batches: with 64 an
abandoned prompt stops within 0.75 s on one slow core, with llama.cpp's usual 512 it took up to 17 s; reading
a prompt is hardly slower for it on a processor."""

PROMPT_CACHE_MIB = 1024
"""Memory for prompts remembered beyond the slots: eleven of 4096 tokens. llama.cpp's own 8 GiB is too much to
take from somebody's laptop unasked."""

HTTP_THREADS = 8  # connections answered at once; slots are few, probes and the face come beside them


class ChildSettings(msgspec.Struct, frozen=True):
    """What the daemon asks for. ``parent`` is its process id."""

    model_file: str
    model_name: str
    slots: int
    context_tokens: int  # of each slot
    threads: int
    parent: int


class ChildReply(msgspec.Struct, frozen=True):
    """Where it answers, or ``trouble``: "missing" (xllamacpp) or "refused" (it did not start)."""

    host: str = ""
    port: int = 0
    version: str = ""
    trouble: str = ""


def main() -> NoReturn:
    """Serve until standard input ends. Exit status: 0, or 1 if it could not start."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches us too, but the daemon decides when we end
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=ChildSettings)
    replies = _take_stdout()
    _forbid_core_files()
    reply, server = _serve(settings)
    os.write(replies, msgspec.json.encode(reply) + b"\n")
    os.close(replies)
    if server is None:
        os._exit(1)
    if sys.platform != "win32":  # there a number of a parent that is gone stays; standard input alone tells
        threading.Thread(target=_end_with_parent, args=(settings.parent,), daemon=True).start()
    while os.read(0, 1024):  # the daemon never writes more; what counts is the end
        continue
    os._exit(0)  # no farewells: llama.cpp would first finish what it computes


def _serve(settings: ChildSettings) -> tuple[ChildReply, object | None]:
    try:
        import xllamacpp
    except ImportError:
        return ChildReply(trouble="missing"), None
    try:
        server = xllamacpp.Server(_parameters(xllamacpp, settings))
        where = urlsplit(server.listening_address)
    except Exception:  # noqa: BLE001 - whatever it was, the daemon says that it did not start
        return ChildReply(trouble="refused"), None
    version = f"xllamacpp {xllamacpp.__version__}"
    return ChildReply(host=where.hostname or "", port=where.port or 0, version=version), server


def _parameters(xllamacpp: Any, settings: ChildSettings) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = settings.model_file
    parameters.model_alias = {settings.model_name}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_parallel = settings.slots
    parameters.n_ctx = settings.context_tokens * settings.slots
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = settings.threads
    parameters.n_threads_http = HTTP_THREADS
    parameters.n_batch = parameters.n_ubatch = max(BATCH_TOKENS, settings.slots)  # less than slots asserts
    parameters.cache_ram_mib = PROMPT_CACHE_MIB
    parameters.n_gpu_layers = 0  # a model this small gains nothing, and the processor is everywhere
    # /v1/embeddings as well; chat is not changed by it. LAST, since for mean pooling a text must fit into one
    # batch, and a batch that the slots do not divide (64 by 3) ends in an assertion.
    parameters.embedding = True
    parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_LAST
    parameters.warmup = True  # the first request should not pay for paging the model in
    parameters.verbosity = 0
    parameters.offline = True  # it has its file; it may ask nobody for anything
    parameters.ui = parameters.endpoint_slots = parameters.endpoint_metrics = False  # nobody reads them
    parameters.cors_origins = "localhost"  # a page from elsewhere may not read replies; "*" is its default
    parameters.cors_credentials = False
    return parameters


def _take_stdout() -> int:
    """Keep standard output for ourselves and lead what anybody else writes there, or to stderr, nowhere."""
    replies = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return replies


def _forbid_core_files() -> None:
    """A core file would hold prompts."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end_with_parent(parent: int) -> None:
    """End when the daemon is no longer our parent."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os._exit(0)


if __name__ == "__main__":
    main()
