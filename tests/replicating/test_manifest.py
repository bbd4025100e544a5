"""What a peer says that a model consists of."""

import contextlib
import hashlib
import json
from typing import Any

import pytest

from pairproxy.core.errors import CopyFailed
from pairproxy.replicating.manifest import MANIFEST_BYTES, MOST_BLOBS, MOST_BYTES, check_config, read_manifest

MODEL = "application/vnd.ollama.image.model"
CONFIG = "application/vnd.docker.container.image.v1+json"


def layer(digit: str = "a", size: Any = 5, kind: str = MODEL, **more: Any) -> dict[str, Any]:
    """An entry of the list."""
    return {"mediaType": kind, "digest": f"sha256:{digit * 64}", "size": size} | more


def document(*layers: Any, config: Any = None) -> bytes:
    """The file."""
    return json.dumps({"schemaVersion": 2, "config": config, "layers": list(layers)}).encode()


def test_what_ollama_writes_is_read() -> None:
    """Each blob once, the config last; the digest is that of the bytes."""
    content = document(layer(), layer("b", 7), layer(), config=layer("c", 2, CONFIG))
    manifest = read_manifest(content)
    assert list(manifest.sizes.values()) == [5, 7, 2]
    assert (manifest.total_bytes, manifest.is_tensors) == (14, False)
    assert manifest.digest == hashlib.sha256(content).hexdigest()
    assert read_manifest(document(layer(kind="application/vnd.ollama.image.tensor"))).is_tensors


def test_a_config_is_the_one_that_was_named_and_keeps_prompts_here() -> None:
    """Its hash, its kind, and no host of others."""
    for content, why in (
        (b"{}", ""),
        (b'{"remote_host":""}', ""),
        (b'{"remote_host":"https://x"}', "send your prompts"),
        (b'{"remote_model":"m"}', "send your prompts"),
        (b"[]", "send your prompts"),
        (b"no json", "not copied"),
        (b'{"Remote_Host":"https://x"}', "send your prompts"),
        ('{"remote_ho\u017ft":"https://x"}'.encode(), "send your prompts"),
        (b'{"remote\\u005fhost":"https://x"}', "send your prompts"),
        (b'{"remote_host":"https://x","remote_host":null}', "not copied"),
        (b'{"remote_host":null,"REMOTE_HOST":"https://x"}', "not copied"),
        (b'{"remote_host":"https://x","rest":"\xff"}', "not copied"),
    ):
        named = layer(kind=CONFIG) | {"digest": f"sha256:{hashlib.sha256(content).hexdigest()}"}
        manifest = read_manifest(document(layer("b"), config=named))
        with pytest.raises(CopyFailed, match=why) if why else contextlib.nullcontext():
            check_config(manifest, content)
        with pytest.raises(CopyFailed, match="the hash differs"):
            check_config(manifest, content + b" ")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b'{"layers":{}}',
        b"[" * 100_000,
        b"\xff\xfe",
        document(),
        document("x"),
        document(layer(size=-1)),
        document(layer(size=True)),
        document(layer(size=1.5)),
        document(layer(size="5")),
        document(layer(size=MOST_BYTES + 1)),
        document(layer(size=MOST_BYTES), layer("b", MOST_BYTES)),
        document(layer(size=5), layer(size=6)),
        document(layer(digit="A")),
        document(layer() | {"digest": "sha256:" + "a" * 64 + "\n"}),
        document(layer() | {"digest": "sha256-" + "a" * 64}),
        document(layer() | {"digest": "sha256:../../../../etc/passwd"}),
        document(layer() | {"digest": None}),
        document(layer(urls=["http://elsewhere/"])),
        document(layer(urls=[])),
        document(layer(kind="application/vnd.docker.image.rootfs.foreign.diff.tar.gzip")),
        document(layer(kind="text/html")),
        document(*[layer() for _ in range(MOST_BLOBS + 1)]),
        document(layer(note="x" * MANIFEST_BYTES)),
        document(layer(URLs=["http://elsewhere/"])),
        document(layer(Digest="sha256:" + "b" * 64)),
        document(layer(mediatype="text/html")),
        document(layer()).replace(b"{", b'{"Layers": [], ', 1),
        document(layer()).replace(b"{", b'{"Config": {"digest": "sha256:%s"}, ' % (b"b" * 64), 1),
        document(layer()).replace(b'"config": null', b'"config": null, "layers": []', 1),
    ],
)
def test_what_is_none_is_refused(content: bytes) -> None:
    """Before anything of it is asked for."""
    with pytest.raises(CopyFailed, match="not copied"):
        read_manifest(content)


def test_keys_are_read_as_go_reads_them() -> None:
    """A config that is named in another spelling is one all the same, and is looked into."""
    content = document(layer(), config=layer("c", 2, CONFIG)).replace(b'"config"', b'"CONFIG"')
    assert read_manifest(content).config == f"sha256:{'c' * 64}"
