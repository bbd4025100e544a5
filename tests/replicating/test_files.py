"""What is read of an Ollama's directory, and what never is."""

import os
from pathlib import Path

import pytest

from pairproxy.core.errors import CopyFailed
from pairproxy.replicating.files import directories, read_held, read_part
from pairproxy.replicating.names import full_name
from tests.support.ollama_store import OllamaStore

NAME = full_name("m:1")
NOBODY = 65534


def shown(store: OllamaStore) -> str:
    """What /api/show says."""
    return f"FROM {store.blobs}/sha256-{'a' * 64}\n"


def test_the_engine_itself_says_where_its_files_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By FROM, also with Windows' separators and quotes; then OLLAMA_MODELS, then the usual places."""
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    digits = "b" * 64
    found = list(directories(f'# FROM /no/blobs/x\nFROM "/a b/blobs/sha256-{digits}"\nFROM llama3\n'))
    assert found[:2] == [Path("/a b"), tmp_path]
    assert Path("/usr/share/ollama/.ollama/models") in found
    assert next(directories(f"FROM /elsewhere/sha256-{digits}\n")) == tmp_path


def test_bytes_of_a_blob_are_those_that_were_asked_for(anna: OllamaStore) -> None:
    """At any place, also none; of the one model only."""
    digest = anna.add("m:1", b"0123456789")
    held = read_held(shown(anna), NAME, digest)
    blob = next(iter(held.manifest.sizes))
    assert read_part(held, blob, 0, 10) == b"0123456789"
    assert read_part(held, blob, 3, 4) == b"3456"
    assert read_part(held, blob, 10, 0) == b""
    for start, count in ((-1, 2), (0, 11), (9, 2), (11, 0), (0, -1)):
        with pytest.raises(CopyFailed, match="no such part"):
            read_part(held, blob, start, count)
    for other in ("sha256:" + "0" * 64, "../manifests/x", ""):
        with pytest.raises(CopyFailed, match="no such part"):
            read_part(held, other, 0, 1)


def test_a_manifest_with_another_digest_than_the_engine_lists_is_not_taken(anna: OllamaStore) -> None:
    """The directory may be that of another Ollama."""
    anna.add("m:1", b"x")
    with pytest.raises(CopyFailed, match="does not find"):
        read_held(shown(anna), NAME, "0" * 64)


@pytest.mark.parametrize("where", ["outside", "beside"])
def test_no_link_is_followed(anna: OllamaStore, tmp_path: Path, where: str) -> None:
    """Neither for a blob nor for a manifest: whoever can write there could show any file to every peer."""
    digest = anna.add("m:1", b"x" * 6)
    held = read_held(shown(anna), NAME, digest)
    blob = next(iter(held.manifest.sizes))
    secret = (tmp_path if where == "outside" else anna.blobs) / "secret"
    secret.write_bytes(b"secret")
    anna.blob(blob).unlink()
    anna.blob(blob).symlink_to(secret)
    with pytest.raises(CopyFailed, match="missing or damaged"):
        read_part(held, blob, 0, 6)
    manifest = anna.manifest("m:1")
    moved = manifest.rename(tmp_path / "moved")
    manifest.symlink_to(moved)
    with pytest.raises(CopyFailed, match="does not find"):
        read_held(shown(anna), NAME, digest)


def test_what_is_no_file_is_not_read(anna: OllamaStore) -> None:
    """A pipe would hold the thread for ever."""
    digest = anna.add("m:1", b"x")
    held = read_held(shown(anna), NAME, digest)
    blob = anna.blob(next(iter(held.manifest.sizes)))
    blob.unlink()
    os.mkfifo(blob)
    with pytest.raises(CopyFailed, match="missing or damaged"):
        read_part(held, next(iter(held.manifest.sizes)), 0, 1)


def test_a_directory_of_models_that_is_a_link_itself_is_followed(anna: OllamaStore, tmp_path: Path) -> None:
    """People move all of their models to another disk so."""
    digest = anna.add("m:1", b"12345")
    (tmp_path / "linked").symlink_to(anna.directory)
    held = read_held(f"FROM {tmp_path}/linked/blobs/sha256-{'a' * 64}\n", NAME, digest)
    assert read_part(held, next(iter(held.manifest.sizes)), 0, 5) == b"12345"


def test_files_that_may_not_be_read_are_said_to_be_so(anna: OllamaStore) -> None:
    """With the command that mends it."""
    digest = anna.add("m:1", b"12345")
    manifests, me = anna.directory / "manifests", os.geteuid()
    manifests.chmod(0)
    try:
        if me == 0:
            os.seteuid(NOBODY)  # root may read everything
        with pytest.raises(CopyFailed, match="usermod -aG ollama"):
            read_held(shown(anna), NAME, digest)
    finally:
        os.seteuid(me)
        manifests.chmod(0o700)
