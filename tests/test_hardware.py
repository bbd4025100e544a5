from pathlib import Path

from pairproxy.hardware import MOST_BYTES, device, memory


def machine(root: Path, *, cards: tuple[str, ...] = (), driver: str = "") -> str:
    """The name of a machine with a CPU of this name, and with these cards."""
    cpu, nvidia = root / "cpuinfo", root / "nvidia"
    cpu.write_text("processor\t: 0\nmodel name\t: Fast   CPU @ 3 GHz\nmodel name\t: other\n")
    for index, card in enumerate(cards):
        (nvidia / "gpus" / f"0000:0{index}:00.0").mkdir(parents=True)
        (nvidia / "gpus" / f"0000:0{index}:00.0" / "information").write_text(f"Model: \t\t {card}\nIRQ: 5\n")
    if driver:
        (nvidia / "version").write_text(f"{driver}\nGCC version: 13\n")
    return device(cpu, nvidia)


def test_a_machine_is_called_by_its_cpu_its_cards_and_their_driver(tmp_path: Path) -> None:
    """A card more, or another driver, is another machine."""
    name = machine(tmp_path, cards=("Card A", "Card B"), driver="NVRM version: 580.1")
    cpu, *rest = name.split(", ")
    assert cpu.startswith("Fast CPU @ 3 GHz x")
    assert rest == ["Card A", "Card B", "NVRM version: 580.1"]


def test_what_cannot_be_found_out_is_left_out(tmp_path: Path) -> None:
    """Without the files of Linux there is a name, too, and always the same."""
    assert machine(tmp_path).count(",") == 0
    bare = device(tmp_path / "none", tmp_path / "none")
    assert bare
    assert bare == device(tmp_path / "none", tmp_path / "none")


def test_a_listing_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    """A thousand cores describe themselves a thousand times."""
    (tmp_path / "cpuinfo").write_bytes(b"x" * MOST_BYTES + b"\nmodel name : late\n")
    assert "late" not in device(tmp_path / "cpuinfo", tmp_path / "none")


def numa(root: Path, *nodes: tuple[str, bool]) -> Path:
    """A machine's memory in these pieces: (processors, has it memory)."""
    for index, (cpus, has_memory) in enumerate(nodes):
        (root / f"node{index}").mkdir(parents=True)
        (root / f"node{index}" / "cpulist").write_text(f"{cpus}\n")
        (root / f"node{index}" / "meminfo").write_text("Node 0 MemTotal: 1 kB\n" if has_memory else "")
    return root


def test_memory_without_processors_is_a_tier_of_its_own(tmp_path: Path) -> None:
    """Two sockets, and a CXL card; what has no memory at all is no piece of it."""
    none = tmp_path / "none"
    found = memory(
        none, none, numa(tmp_path / "numa", ("0-7", True), ("8-15", True), ("", True), ("", False)), none
    )
    assert (found.numa_nodes, found.memory_nodes, found.has_two_tiers) == (2, 1, True)
    assert found.total_bytes > 1 << 20


def test_a_machine_of_which_nothing_is_told_has_one_memory(tmp_path: Path) -> None:
    """As on any system without these files."""
    none = tmp_path / "none"
    found = memory(none, none, none, none)
    assert (found.numa_nodes, found.memory_nodes, found.cards) == (1, 0, 0)


def test_cards_have_their_own_memory_unless_they_share_it(tmp_path: Path) -> None:
    """By their names, and by what their driver tells."""
    cpu, none = tmp_path / "cpuinfo", tmp_path / "none"
    cpu.write_text("model name\t: Fast CPU\n")
    (tmp_path / "one").mkdir()
    machine(tmp_path / "one", cards=("NVIDIA RTX 5090",))
    found = memory(cpu, tmp_path / "one" / "nvidia", none, none)
    assert (found.cards, found.is_unified, found.has_two_tiers) == (1, False, True)
    (tmp_path / "two").mkdir()
    machine(tmp_path / "two", cards=("NVIDIA GB10",))
    assert memory(cpu, tmp_path / "two" / "nvidia", none, none).is_unified
    for name, size in (("card0", 24 << 30), ("card1", 512 << 20), ("card2", "much")):
        (tmp_path / "drm" / name / "device").mkdir(parents=True)
        (tmp_path / "drm" / name / "device" / "mem_info_vram_total").write_text(f"{size}\n")
    found = memory(cpu, none, none, tmp_path / "drm")
    assert (found.cards, found.card_bytes) == (1, 24 << 30)
    cpu.write_text("model name\t: AMD Ryzen AI Max+ 395\n")
    assert not memory(cpu, none, none, tmp_path / "drm").has_two_tiers
