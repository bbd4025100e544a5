from pathlib import Path

import msgspec
import pytest

from pairproxy import __version__, is_compiled
from pairproxy.api.diagnosis import Diagnosis
from tests.cli.test_json import printed
from tests.support.command import here, pairproxy, sentence
from tests.support.doctored import QUIET, without


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of nobody yet."""
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    return made


@pytest.mark.slow
def test_without_a_daemon_it_says_what_it_could_not_see(home: Path) -> None:
    """Notes, exit status 0; what needs a daemon stands in one line with the reason."""
    with without(QUIET):
        done = here("doctor", "--home", home, HOME=str(home))
    assert (done.returncode, done.stderr) == (0, "")
    assert "note: No daemon runs here" in done.stdout
    assert "Nothing to mend." in done.stdout
    assert f"This is pairproxy {__version__}{', compiled' if is_compiled() else ''}." in done.stdout
    assert "(no daemon runs here)" in done.stdout


def test_a_problem_has_its_name_and_what_mends_it_and_exit_status_1(home: Path) -> None:
    """A sentence, its id in brackets, the command below it."""
    (home / "config.toml").write_text("[routing]\npolcy = 'x'\n")
    with without(QUIET):
        done = here("doctor", "--home", home, HOME=str(home))
    assert done.returncode == 1
    first, mend = done.stdout.replace("\n  ", " ").splitlines()[0], done.stdout
    assert first.startswith("problem: ")
    assert "[settings-wrong]" in first
    assert "`pairproxy reload`" in mend
    assert "1 problem." in done.stdout


@pytest.mark.slow
def test_json_is_one_document_with_the_same(home: Path) -> None:
    """For scripts."""
    with without(QUIET):
        done = here("doctor", "--home", home, "--json", HOME=str(home))
    found = msgspec.json.decode(done.stdout, type=Diagnosis)
    assert (found.is_ok, found.has_daemon, done.returncode) == (True, False, 0)
    assert printed("doctor", done.stdout) == []


def test_what_others_named_cannot_write_to_the_terminal(home: Path) -> None:
    """A program's or a peer's name may hold anything; only a plain line is shown."""
    (home / "config.toml").write_bytes(b'[node]\nname = "a\\u001b[2Jb"\n[x\x1b[2Jy]\n')
    with without(QUIET):
        done = here("doctor", "--home", home, HOME=str(home))
    assert done.returncode == 1
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_a_bundle_is_told_of_and_not_written_twice(home: Path, tmp_path: Path) -> None:
    """What it holds goes to standard error, so that --json stays one document."""
    file = tmp_path / "report.zip"
    with without(QUIET):
        done = here("doctor", "--home", home, "--bundle", file, "--json", HOME=str(home))
        again = here("doctor", "--home", home, "--bundle", file, HOME=str(home))
    assert "diagnosis.json" in done.stderr
    assert msgspec.json.decode(done.stdout, type=Diagnosis).is_ok
    assert file.exists()
    assert (again.returncode, "is there already" in again.stderr) == (1, True)


@pytest.mark.parametrize(
    "wrong", [["--bundle"], ["--measures"], ["now"], ["--bundle", "/"], ["--home", "/proc/version"]]
)
def test_a_wrong_use_ends_in_a_sentence(home: Path, wrong: list[str]) -> None:
    """Exit status 2 for what it does not know, 1 for what cannot be done; never a traceback."""
    with without(QUIET):
        done = here("doctor", "--home", home, *wrong, HOME=str(home))
    assert done.returncode in (0, 1, 2)
    assert "Traceback" not in done.stderr + done.stdout


def test_a_home_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    """One sentence, and nothing is looked at."""
    (tmp_path / "file").write_text("")
    done = here("doctor", "--home", tmp_path / "file")
    assert done.returncode == 1
    assert "is not a directory" in sentence(done)


def test_its_help_starts_without_what_it_needs_to_look(home: Path) -> None:
    """As every command: heavy libraries are imported when it runs."""
    done = pairproxy("doctor", "--help", flags=("-X", "importtime"))
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert not {name for name in imported if name.startswith(("aiohttp", "zeroconf", "pairproxy.doctor"))}
