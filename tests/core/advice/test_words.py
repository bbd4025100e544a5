from pairproxy.core.advice.words import change, counted, listed, part, seconds


def test_numbers_read_as_a_person_writes_them() -> None:
    """Three digits at most, milliseconds where they are."""
    assert [seconds(one) for one in (0.0004, 0.035, 0.35, 7.1, 12.44)] == [
        "0 ms", "35 ms", "0.35 s", "7.10 s", "12.4 s",
    ]  # fmt: skip
    assert part(0.625) == "62 %"
    assert change(12.44, 7.1) == "7.10 s instead of 12.4 s"
    assert [counted(1, "slot"), counted(2000, "slot")] == ["1 slot", "2,000 slots"]
    assert [listed(["a"]), listed(["a", "b", "c"])] == ["a", "a, b and c"]
