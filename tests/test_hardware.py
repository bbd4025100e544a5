from pathlib import Path

from pairproxy.hardware import MOST_BYTES, device


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
