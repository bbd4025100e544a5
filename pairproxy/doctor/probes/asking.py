"""What the daemon tells of itself, and its process."""

from pathlib import Path
from typing import NamedTuple

import psutil

from pairproxy.api.client import DAEMON_FILE, NoDaemon, get_models, get_status, read_daemon_file
from pairproxy.api.models import ModelMatrix
from pairproxy.api.schema import DaemonFile, Status
from pairproxy.core.errors import PairproxyError
from pairproxy.doctor.facts import Process, Unknown
from pairproxy.doctor.probes.scene import Scene

PATIENCE_S = 3.0  # for each answer; a daemon answers in milliseconds, one that is held up is found so


BORN_S = 2.0  # systems tell when a process began to a second or so


class Told(NamedTuple):
    """What a daemon told; ``file`` is None if none left its address."""

    file: DaemonFile | None
    status: Status | Unknown
    models: ModelMatrix | Unknown


def told(scene: Scene) -> Told:
    """Ask the daemon of the home."""
    try:
        file = read_daemon_file(scene.home)
    except NoDaemon:
        why = Unknown("no daemon runs here")
        return Told(None, why, why)
    try:
        status = get_status(scene.home, PATIENCE_S)
    except PairproxyError as error:
        silent = Unknown("the daemon does not answer" if isinstance(error, NoDaemon) else error.sentence)
        return Told(file, silent, silent)
    try:
        return Told(file, status, get_models(scene.home, PATIENCE_S))
    except PairproxyError:
        return Told(file, status, Unknown("the daemon does not tell of models"))


def process_of(home: Path, file: DaemonFile | None) -> Process | Unknown:
    """The process of the daemon, as the system tells; Unknown: there is one, and no more is told of it."""
    if file is None:
        return Unknown("no daemon runs here")
    try:
        process = psutil.Process(file.pid)
        if process.create_time() > (home / DAEMON_FILE).stat().st_mtime + BORN_S:
            return Process(file.pid, 0, is_alive=False)  # its number was given to a stranger
        limit = getattr(process, "rlimit", None)  # Linux only
        if limit is None:
            return Unknown("this system does not tell the limits of another process")
        soft, _ = limit(psutil.RLIMIT_NOFILE)
        return Process(file.pid, soft if soft >= 0 else 2**31)
    except psutil.NoSuchProcess:
        return Process(file.pid, 0, is_alive=False)
    except (psutil.Error, OSError):
        return Unknown("the daemon belongs to another user")
