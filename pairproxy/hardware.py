"""What this machine computes with, by name: speeds that were measured belong to it. And its memory."""

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from pairproxy.core.advice.memory import Memory

CPU_FILE = Path("/proc/cpuinfo")
NVIDIA = Path("/proc/driver/nvidia")  # its driver's own listing; no program has to be run
MOST_BYTES = 64 * 1024  # read of each: a listing of many cores repeats itself
NUMA = Path("/sys/devices/system/node")  # node0 and so on, each with its processors and its memory
DRM = Path("/sys/class/drm")  # where amdgpu tells what memory a card has
MOST_NODES = 64  # of NUMA that are looked at; two sockets have up to sixteen
LEAST_CARD_BYTES = 4 << 30  # of a card's own memory: a GPU in the processor takes less of the machine's
UNIFIED = ("GB10", "Orin", "Thor", "Xavier", "Ryzen AI Max", "Apple M")
"""In the names of processors and cards that share one memory, by their makers' data sheets."""
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


def memory(cpu_file: Path = CPU_FILE, nvidia: Path = NVIDIA, numa: Path = NUMA, drm: Path = DRM) -> Memory:
    """What weights can be kept in. What cannot be found out is taken for the usual: one memory, no card."""
    import psutil  # a megabyte, and a daemon that nobody asks for advice has no use for it

    nodes = [one for one in _entries(numa, "node[0-9]*", MOST_NODES) if _read(one / "meminfo")]
    bare = sum(not _read(one / "cpulist").strip() for one in nodes)
    cards = [*_cards(nvidia)] if nvidia.is_dir() else []
    names = [_field(cpu_file, "model name") or platform.processor(), *cards]
    is_apple = platform.system() == "Darwin" and platform.machine() == "arm64"
    own = [
        size
        for card in _entries(drm, "card[0-9]*", MOST_CARDS)
        if (size := _number(card / "device" / "mem_info_vram_total")) >= LEAST_CARD_BYTES
    ]
    return Memory(
        total_bytes=psutil.virtual_memory().total,
        numa_nodes=max(len(nodes) - bare, 1),
        memory_nodes=bare,
        is_unified=is_apple or any(sign in name for name in names for sign in UNIFIED),
        cards=len([*_entries(nvidia / "gpus", "*", MOST_CARDS)]) + len(own),
        card_bytes=sum(own),
    )


def _entries(directory: Path, pattern: str, most: int) -> list[Path]:
    try:
        return sorted(directory.glob(pattern))[:most]
    except OSError:
        return []


def _number(file: Path) -> int:
    text = _read(file).strip()
    return int(text) if text.isdecimal() and len(text) < 20 else 0
