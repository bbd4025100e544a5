import os
import signal
import subprocess
import sys
import threading

from pairproxy.takeover.stopping import Stop, shielded


def test_signals_ask_for_the_end() -> None:
    """And are as before afterwards."""
    before, stop = signal.getsignal(signal.SIGTERM), Stop()
    with stop.on_signals():
        assert not stop.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_set()
    assert signal.getsignal(signal.SIGTERM) == before


def test_an_undoing_goes_on_and_so_do_its_commands() -> None:
    """A second Ctrl-C reaches every process of the terminal."""
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('still here')"
    with shielded():
        os.kill(os.getpid(), signal.SIGINT)
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert child.stdout == "still here\n"


def test_what_is_started_meanwhile_can_be_ended_later() -> None:
    """An engine that never heard SIGTERM would outlive every attempt to stop it politely."""
    with shielded():
        os.kill(os.getpid(), signal.SIGTERM)
        child = subprocess.Popen(["sleep", "60"])
    child.terminate()
    assert child.wait(10) == -signal.SIGTERM


def test_a_thread_is_not_interrupted_anyway() -> None:
    """Signals reach the main thread only, so there is nothing to be set up, which only that may do."""
    seen: list[str] = []

    def work() -> None:
        with shielded():
            seen.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["done"]
