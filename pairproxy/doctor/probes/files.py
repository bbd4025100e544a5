"""What lies in the home, who may read it, how much room there is, and whether it can be used."""

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import psutil

from pairproxy.config import Settings, cache_dir
from pairproxy.core.errors import PairproxyError, StoreError
from pairproxy.core.models import NodeId
from pairproxy.doctor.facts import OpenFile, Place, Unknown
from pairproxy.doctor.probes.scene import Scene
from pairproxy.history import schema
from pairproxy.history.store import FILE
from pairproxy.loading import load
from pairproxy.security.identity import CERTIFICATE_FILE, device_id_of
from pairproxy.security.peer_record import PeerRecord
from pairproxy.security.trust import TrustStore

MOST_FILES = 2048  # looked at in the home: 256 peers and a dozen more are usual
PUBLIC = frozenset({"config.toml"})  # a person's own: its mode is theirs, as long as others cannot write it
SQLITE_HEAD, VERSION_AT = b"SQLite format 3\0", 60


def settings(scene: Scene) -> tuple[Settings | Unknown, str]:
    """What the next start would go by: (settings, "") or (Unknown, what is wrong)."""
    file = scene.home / "config.toml"
    try:
        return load(file if file.exists() else None, scene.environment), ""
    except PairproxyError as error:
        return Unknown("the settings cannot be read"), error.sentence
    except OSError as error:
        return Unknown("the settings cannot be read"), f"{file} cannot be read: {error.strerror}."


def peers(scene: Scene) -> tuple[tuple[PeerRecord, ...] | Unknown, str]:
    """The paired machines: (them, "") or (Unknown, what is wrong with their files). Makes nothing."""
    if not (scene.home / "peers").is_dir() or not (scene.home / CERTIFICATE_FILE).exists():
        return (), ""
    try:
        store = TrustStore(scene.home, _own(scene.home))
        store.load()
        return store.peers(), ""
    except StoreError as error:
        return Unknown("the files of the peers cannot be read"), error.sentence
    except (OSError, ValueError):
        return Unknown("the files of the peers cannot be read"), ""


def node_of(home: Path) -> str:
    """This node's id; "" while it has none."""
    try:
        return str(_own(home))
    except (OSError, ValueError, StoreError):
        return ""


def _own(home: Path) -> NodeId:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    certificate = x509.load_pem_x509_certificate((home / CERTIFICATE_FILE).read_bytes())
    return device_id_of(certificate.public_bytes(Encoding.DER))


def open_files(home: Path) -> tuple[OpenFile, ...] | Unknown:
    """What others may read or write there, or own."""
    if sys.platform == "win32":
        return Unknown("Windows has no modes of files; who may read them follows from your profile")
    if not home.exists():
        return ()
    try:
        return tuple(_open(home))
    except OSError as error:
        return Unknown(f"the home cannot be read: {error.strerror}")


def _open(home: Path) -> Iterator[OpenFile]:
    for path in (home, *islice(sorted(home.rglob("*")), MOST_FILES)):
        try:
            told = path.lstat()
        except FileNotFoundError:  # it was just replaced
            continue
        if stat.S_ISLNK(told.st_mode):
            continue
        is_directory = stat.S_ISDIR(told.st_mode)
        shut = 0o022 if path.name in PUBLIC else 0o077
        is_foreign = told.st_uid not in (os.geteuid(), home.stat().st_uid)
        if told.st_mode & shut or is_foreign:
            yield OpenFile(path, stat.S_IMODE(told.st_mode), "700" if is_directory else "600", is_foreign)


def places(home: Path) -> tuple[Place, ...]:
    """Room for what is written: the home, and where fetched models are kept."""
    wanted = {"home": home, "cache": cache_dir()}
    found = []
    for what, path in wanted.items():
        there = next((one for one in (path, *path.parents) if one.exists()), None)
        if there is not None:
            found.append(Place(what, path, shutil.disk_usage(there).free))
    return tuple(found)


def history_problem(home: Path) -> str | Unknown:
    """What is wrong with the file of history as it lies there; "": nothing, or there is none."""
    path = home / FILE
    try:
        with path.open("rb") as stream:
            head = stream.read(VERSION_AT + 4)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}."
    if head and not head.startswith(SQLITE_HEAD):
        return f"{path} holds no history of pairproxy: it is moved aside at the next start."
    version = int.from_bytes(head[VERSION_AT:], "big") if len(head) == VERSION_AT + 4 else 0
    if version > schema.VERSION:
        return (
            f"{path} was written by a newer pairproxy, which this one does not read: history is off. "
            "Update this one."
        )
    return ""


def is_running(pid: int) -> bool:
    """Whether there is such a process."""
    return bool(psutil.pid_exists(pid))
