"""Names that come from people, peers and Ollama."""

from pathlib import PurePosixPath

import pytest

from pairproxy.core.errors import CopyFailed
from pairproxy.replicating.names import full_name, left_over, temporary_namespace


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("m", "registry.ollama.ai/library/m/latest"),
        ("M:7B", "registry.ollama.ai/library/M/7B"),
        (" someone/m:1 ", "registry.ollama.ai/someone/m/1"),
        ("hf.co/User/Repo-GGUF:Q4_K_M", "hf.co/User/Repo-GGUF/Q4_K_M"),
        ("localhost:5000/a/m", "localhost:5000/a/m/latest"),
        ("a.b-c_d:e.f-g_h", "registry.ollama.ai/library/a.b-c_d/e.f-g_h"),
    ],
)
def test_the_manifest_lies_where_ollama_puts_it(name: str, path: str) -> None:
    """Four parts, each in its own spelling."""
    assert full_name(name).path == PurePosixPath(path)


@pytest.mark.parametrize(
    "name",
    [
        "", ":", "m:", ":1", "/m", "a//m", "../m", "a/../m", "a/b/c/m", "a/b/..:1", "..", ".m", "m:../x",
        "m\0", "m m", "m%2e", "http://h/a/m", "a\\b", "m:1:2", "m:cloud", "m:8b-cloud", "a.b/m/x/y", "ä",
        "m" * 300, "../../etc/passwd", "@sha256:ab", "-m", "a.b/m:1/2",
    ],
)  # fmt: skip
def test_no_name_leads_elsewhere(name: str) -> None:
    """What is none by Ollama's rule, or is a cloud's, is refused whoever says it."""
    with pytest.raises(CopyFailed):
        full_name(name)


def test_a_temporary_name_is_known_again_and_not_guessed() -> None:
    """With the port of its registry; a person's names are never taken for one."""
    one, other = temporary_namespace(), temporary_namespace()
    assert one != other
    assert left_over(f"127.0.0.1:4711/{one}/m:1") == ("127.0.0.1", 4711)
    assert left_over(f"127.4.5.6/{one}/m:1") == ("127.4.5.6", 80)
    for name in (
        "m:1", f"{one}/m:1", f"example.com/{one}/m:1", f"127.0.0.1:4711/x{one}/m:1", "127.0.0.1:4711/a/m:1",
        f"127.0.0.1:4711/{one[:-1]}/m:1", f"a127.0.0.1/{one}/m:1",
    ):  # fmt: skip
        assert left_over(name) is None
