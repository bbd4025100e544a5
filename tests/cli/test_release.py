import json
from pathlib import Path

from tests.support.command import here, sentence


def test_with_nothing_taken_over_it_is_done(home: Path) -> None:
    """Exit status 0: whoever uninstalls calls it in any case."""
    done = here("release", "--home", home)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing to undo" in done.stdout
    told = here("release", "--yes", "--json", "--home", home)
    assert json.loads(told.stdout) == {"is_dry_run": False, "planned": [], "moved": []}


def test_a_record_that_cannot_be_read_is_said_and_kept(home: Path) -> None:
    """It is all that tells how to undo by hand."""
    (home / "takeover.json").write_text("{")
    (home / "takeover.json").chmod(0o600)
    done = here("release", "--home", home)
    assert done.returncode == 1
    assert "cannot be read as an undo record" in sentence(done)
    assert (home / "takeover.json").exists()
