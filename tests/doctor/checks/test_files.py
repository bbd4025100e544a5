from pathlib import Path

from pairproxy.doctor.facts import OpenFile, Place, Unknown
from tests.support.diagnosed import HOME, facts, found, told


def test_settings_that_the_next_start_refuses() -> None:
    """The daemon that runs goes on with the old ones."""
    words = told(settings=Unknown("broken"), settings_problem="routing.policy: there is no policy 'x'.")
    assert "there is no policy 'x'. The next start fails. The running daemon goes on" in words
    assert str(HOME / "config.toml") in words


def test_one_command_mends_all_modes() -> None:
    """Directories and files, names with blanks, and what belongs to somebody else."""
    loose = (
        OpenFile(HOME, 0o755, "700"),
        OpenFile(HOME / "key.pem", 0o644, "600"),
        OpenFile(HOME / "peers" / "a b.json", 0o600, "600", is_foreign=True),
    )
    words = told(files=loose)
    assert f"chmod 700 {HOME} && chmod 600 {HOME}/key.pem '{HOME}/peers/a b.json'" in words
    assert f"sudo chown \"$(id -un)\" '{HOME}/peers/a b.json'" in words
    assert "(644)" in words
    many = tuple(OpenFile(HOME / str(number), 0o644, "600") for number in range(20))
    assert "and 12 more" in told(files=many)


def test_little_room() -> None:
    """Of the home more is wanted than of the cache."""
    assert found(places=(Place("home", HOME, 200 * 2**20),)) == ["disk-full"]
    assert found(places=(Place("cache", Path("/c"), 200 * 2**20),)) == []
    assert "7 MiB are free" in told(places=(Place("cache", Path("/c"), 7 * 2**20),))
    assert facts().places
