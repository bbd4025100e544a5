import pytest

from pairproxy.cli.bench.overhead.document import Document
from pairproxy.cli.bench.overhead.showing import notes, print_document, table_of


def test_a_table_has_a_row_for_each_target(document: Document) -> None:
    """With ratios to nginx and the pass-through; no row is shorter than its titles."""
    for case in document.cases():
        titles, rows = table_of(document, case)
        assert [row[0] for row in rows] == ["nginx", "pass-through", "pairproxy"]
        assert {len(row) for row in rows} == {len(titles)}
    titles, rows = table_of(document, document.cases()[0])
    assert rows[2] == (
        "pairproxy",
        "1,000",
        "100 us",
        "200 us",
        *["1.00"] * 2,
        "0.100",
        *["1.00"] * 2,
        "60",
        "0",
    )


def test_what_was_left_out_is_told(document: Document) -> None:
    """And the machine."""
    told = "\n".join(notes(document))
    assert "nginx: unbuffered." in told
    assert "haproxy: SKIPPED, not on PATH" in told
    assert "a fast one: cores 2, kernel 6.1, load 0.1." in told


def test_it_is_printed_with_its_gates(document: Document, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables stay tables where there is no terminal."""
    print_document(document)
    out = capsys.readouterr().out
    assert "json-64: small JSON, 64 clients" in out
    assert "first byte, one client / nginx's" in out
    assert "target: " not in out
