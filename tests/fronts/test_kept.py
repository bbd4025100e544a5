"""A front that a service manager keeps: nobody is refused while the daemon is restarted or killed."""

import socket
import threading
import time
from pathlib import Path

import pytest

from pairproxy.api.client import read_daemon_file
from pairproxy.cli.demo.cluster import node_environment, up_command
from tests.support.asking import Asker, Got
from tests.support.daemons import settings
from tests.support.free_ports import free_ports
from tests.support.supervising import Supervisor


@pytest.mark.slow
def test_a_restart_and_a_kill_refuse_nobody(home: Path) -> None:
    """Who asks meanwhile waits and is answered by the next life; after the end the port is free."""
    (port,) = free_ports(1)
    text = settings().replace('listen = "127.0.0.1:0"\nslots', f'listen = "127.0.0.1:{port}"\nslots')
    (home / "config.toml").write_text(text)
    answers: list[Got | OSError] = []
    is_over = threading.Event()

    def hammer() -> None:
        while not is_over.is_set():
            try:
                answers.append(Asker(port).ask(tokens=1))
            except OSError as error:
                answers.append(error)
            time.sleep(0.01)

    log = (home.parent / "log").open("wb")
    command = [
        word for word in up_command(home) if word != "--stop-on-eof"
    ]  # its input is empty: it would end at once
    with log, Supervisor(command, node_environment(), log=log) as manager:
        manager.until_ready(1)
        assert f"front-{port}-v4" in manager.kept
        hammering = threading.Thread(target=hammer)
        hammering.start()
        manager.restart()
        manager.until_ready(2)
        manager.kill()
        manager.until_ready(3)
        before = len(answers)
        while len(answers) < before + 5:
            time.sleep(0.01)
        is_over.set()
        hammering.join()
        assert read_daemon_file(home).pid == manager.pid
    refused = [one for one in answers if isinstance(one, ConnectionRefusedError)]
    assert refused == [], f"of {len(answers)}"
    assert [one.status for one in answers if isinstance(one, Got)].count(200) >= 5
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5.0)
