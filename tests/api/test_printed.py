"""What commands print: each as published is looked at in tests/cli/test_json.py."""

import msgspec

from pairproxy.api.printed import PRINTED


def test_every_document_is_one_of_ours() -> None:
    """A struct, so that it can be described and checked."""
    assert all(issubclass(kind, msgspec.Struct) for kinds in PRINTED.values() for kind in kinds)
    assert all(PRINTED.values())
