from pairproxy.api.models import ModelCell
from tests.support.diagnosed import found, matrix, told
from tests.support.statuses import B


def test_other_content_under_one_name() -> None:
    """What `pairproxy models` says helps is what helps here."""
    differs = matrix(ModelCell(B, "different", "gpu", "sha256:2", True, 32768), fix="`ollama pull m:1b`")
    words = told(models=differs)
    assert words.startswith("m:1b: the same name means other content")
    assert "`ollama pull m:1b`" in words


def test_windows_of_different_sizes() -> None:
    """Of the same content only, and only those that are known."""
    assert "4,096 and 32,768 tokens" in told(
        models=matrix(ModelCell(B, "same", "gpu", "sha256:1", True, 4096))
    )
    assert found(models=matrix(ModelCell(B, "same", "gpu", "sha256:1", True, None))) == []
    assert found(models=matrix(ModelCell(B, "missing"))) == []
