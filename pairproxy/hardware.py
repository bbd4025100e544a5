"""What this machine computes with, by name: speeds that were measured belong to it."""

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

CPU_FILE = Path("/proc/cpuinfo")
NVIDIA = Path("/proc/driver/nvidia")  # its driver's own listing; no program has to be run
MOST_BYTES = 64 * 1024  # read of each: a listing of many cores repeats itself
MOST_CARDS = 16  # named; no machine of one owner has more


def device(cpu_file: Path = CPU_FILE, nvidia: Path = NVIDIA) -> str:
    """CPU with its cores, NVIDIA cards with their driver; what cannot be found out is left out.

    Another name means another machine: a card that was added, a driver that was updated.
    """
    cores = os.cpu_count() or 0
    parts = [f"{_field(cpu_file, 'model name') or platform.processor() or platform.machine()} x{cores}"]
    parts += _cards(nvidia)
    return ", ".join(parts)


def _cards(nvidia: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for card in sorted((nvidia / "gpus").iterdir())[:MOST_CARDS]:
            yield _field(card / "information", "Model") or "NVIDIA card"
    for line in _read(nvidia / "version").splitlines()[:1]:
        yield " ".join(line.split())


def _field(file: Path, name: str) -> str:
    for line in _read(file).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return " ".join(value.split())
    return ""


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
