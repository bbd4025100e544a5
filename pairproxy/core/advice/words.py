"""How advice is worded: numbers as a person reads them."""


def seconds(value: float) -> str:
    """``12.4 s``, ``0.35 s``, ``35 ms``."""
    if value < 0.1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 10.0 else f"{value:.1f} s"


def part(value: float) -> str:
    """``62 %``."""
    return f"{value:.0%}".replace("%", " %")


def change(before_s: float, after_s: float) -> str:
    """``7.10 s instead of 12.4 s``."""
    return f"{seconds(after_s)} instead of {seconds(before_s)}"


def counted(count: int, one: str) -> str:
    """``1 slot``, ``2 slots``."""
    return f"{count} {one}" if count == 1 else f"{count:,} {one}s"


def listed(names: list[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
