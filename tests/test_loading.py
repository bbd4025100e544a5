"""Settings: defaults < file < environment < flags, and errors that say where and what instead."""

import re
from pathlib import Path

import msgspec
import pytest

from pairproxy.config import Settings
from pairproxy.core.errors import ConfigError
from pairproxy.loading import _fields, _tables, load


def written(directory: Path, text: str) -> Path:
    """A settings file that holds ``text``."""
    file = directory / "config.toml"
    file.write_text(text)
    return file


def test_no_file_is_all_defaults() -> None:
    """Without file, environment and flags the settings are the defaults."""
    assert load(None, {}) == Settings()


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    """Each source overrides single keys of the one below it and leaves the others."""
    file = written(tmp_path, '[log]\nlevel = "error"\n[routing]\nqueue_limit = 1\nqueue_timeout_s = 2\n')
    environment = {"PAIRPROXY_LOG_LEVEL": "warning", "PAIRPROXY_ROUTING_QUEUE_LIMIT": "5"}
    settings = load(file, environment, {"log": {"level": "debug"}})
    assert settings.log.level == "debug"
    assert settings.routing.queue_limit == 5
    assert settings.routing.queue_timeout_s == 2.0


def test_the_environment_speaks_lists_and_booleans() -> None:
    """Commas make a list; true and false are words."""
    settings = load(
        None, {"PAIRPROXY_PEERS_STATIC": "a:1,b:2", "PAIRPROXY_PEERS_LOOPBACK": "true", "HOME": "/"}
    )
    assert settings.peers.static == ("a:1", "b:2")
    spaced = load(None, {"PAIRPROXY_ROUTING_LOCAL_ONLY": "qwen*, llama*,", "PAIRPROXY_PEERS_STATIC": ""})
    assert spaced.routing.local_only == ("qwen*", "llama*"), "a space would let the second one's prompts out"
    assert spaced.peers.static == ()
    assert settings.peers.loopback is True


def test_a_section_that_is_none_is_told_also_beside_flags_and_variables(tmp_path: Path) -> None:
    """`log = "debug"` is a fault of the file, whatever else sets a key of that section."""
    file = written(tmp_path, 'log = "debug"\n')
    for environment, flags in (({"PAIRPROXY_LOG_LEVEL": "info"}, {}), ({}, {"log": {"level": "info"}})):
        with pytest.raises(ConfigError, match=r"log: Expected `object`, got `str`"):
            load(file, environment, flags)


def test_engines_are_read_with_their_own_tables(tmp_path: Path) -> None:
    """An [[engines]] entry may hold the table of the paced engine."""
    file = written(tmp_path, '[[engines]]\nkind = "paced"\nslots = 2\n[engines.paced]\ndecode = 7\n')
    (engine,) = load(file, {}).engines
    assert (engine.kind, engine.slots, engine.paced.decode) == ("paced", 2, 7.0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[routing]\npolcy = "x"\n', "there is no setting routing.polcy. Did you mean routing.policy?"),
        ("[rooting]\n", "there is no setting rooting. Did you mean routing?"),
        ('[[engines]]\nkind = "ollama"\nlissten = "x"\n', "Did you mean engines.listen?"),
        ("[log]\nzzzz = 1\n", "Known here: level, format."),
        ('[routing]\npolicy = "fastest"\n', "there is no policy 'fastest'. Did you mean 'fastest-finish'?"),
        ('[log]\nlevel = "loud"\n', "level"),
        ('[routing]\nqueue_limit = "many"\n', "queue_limit"),
        ('[[engines]]\nkind = "abacus"\n', "kind"),
        ('engines = "ollama"\n', "engines"),
        ("log = 3\n", "log"),
        ("[log\n", "is not TOML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    """Whatever is wrong in the file, the error names the file, the key, and what was probably meant."""
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert sentence in caught.value.sentence
    assert str(file) in caught.value.sentence


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[node]\nname = "a"\n\n[routing]\npolcy = "x"\n', 5),
        ('[routing]\npolicy = "fastest"\n', 2),
        ('# here\n[peers]\nlisten = "11634"\n', 3),
        ('[[engines]]\nkind = "ollama"\n[[engines]]\nkind = "paced"\nlisten = "x"\n', 5),
        ('[[engines]]\nkind = "ollama"\n[[engines]]\nkind = "paced"\nlissten = "x"\n', 5),
        ('[[engines]]\nkind = "ollama"\n[[engines]]\nkind = "paced"\n[engines.paced]\ndecode = 0\n', 6),
        ('[log]\nlevel = "loud"\n', 2),
        ("log.levle = 1\n", 1),
        ("[log]\nlevel = \n", 2),
    ],
)
def test_a_fault_is_told_by_its_line(tmp_path: Path, text: str, line: int) -> None:
    """Of the file as an editor counts."""
    with pytest.raises(ConfigError, match=rf"line {line}\b"):
        load(written(tmp_path, text), {})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PAIRPROXY_LIMITS_ATTEMPTS", "many"),
        ("PAIRPROXY_ROUTING_POLICY", "fastest"),
        ("PAIRPROXY_PEERS_LISTEN", "11634"),
        ("PAIRPROXY_CLIENTS_LISTEN", "11635"),
        ("PAIRPROXY_TRACING_ENDPOINT", "collector"),
    ],
)
def test_a_fault_in_a_variable_is_told_by_its_name(tmp_path: Path, name: str, text: str) -> None:
    """And not by a file that is good."""
    file = written(tmp_path, '[limits]\nattempts = 2\n[routing]\npolicy = "fastest-finish"\n')
    with pytest.raises(ConfigError, match=f"^{name}: "):
        load(file, {name: text})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[peers]\nlisten = "0.0.0.0:99999"\n', "peers.listen = '0.0.0.0:99999' is not host:port"),
        ('[admin]\nlisten = "127.0.0.1"\n', "admin.listen = '127.0.0.1' is not host:port"),
        ('[[engines]]\nkind = "ollama"\nlisten = "11600"\n', "engines.listen = '11600' is not host:port"),
    ],
)
def test_a_place_that_is_none_is_refused_before_it_is_needed(
    tmp_path: Path, text: str, sentence: str
) -> None:
    """`reload` reads ports that only the next start opens: what it takes must not keep that from starting."""
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        load(written(tmp_path, text), {})


NUMBERS = {
    name: [key for key, kind in _fields(section).items() if "int" in str(kind) or "float" in str(kind)]
    for name, section in _tables().items()
    if issubclass(section, msgspec.Struct)
} | {"engines": ["slots", "threads", "context_tokens"], "paced": ["prefill", "decode", "beta", "load_s"]}


@pytest.mark.parametrize(("table", "key"), [(table, key) for table, keys in NUMBERS.items() for key in keys])
@pytest.mark.parametrize("value", ["-1", "nan", "inf", "1e300"])
def test_every_number_has_a_range(tmp_path: Path, table: str, key: str, value: str) -> None:
    """No setting takes a negative number, a number that is none, or one without end; its key is named."""
    head = {"engines": '[[engines]]\nkind = "paced"', "paced": '[[engines]]\nkind = "paced"\n[engines.paced]'}
    file = written(tmp_path, f"{head.get(table, f'[{table}]')}\n{key} = {value}\n")
    with pytest.raises(ConfigError, match=rf"{table}\.{key}: "):
        load(file, {})


@pytest.mark.parametrize(
    ("key", "least"),
    [("slots", 1), ("threads", 1), ("context_tokens", 256), ("paced.decode", 1e-3), ("paced.load_s", 0)],
)
def test_the_least_that_is_taken_is_taken(tmp_path: Path, key: str, least: float) -> None:
    """The edge of a range is inside, and the next below is refused with the edge."""
    (entry,) = load(written(tmp_path, f'[[engines]]\nkind = "paced"\n{key} = {least}\n'), {}).engines
    assert entry.kind == "paced"
    below = written(tmp_path, f'[[engines]]\nkind = "paced"\n{key} = {least - 1}\n')
    with pytest.raises(ConfigError, match=rf"engines\.{key}: Expected .*>"):
        load(below, {})


@pytest.mark.parametrize("text", ['[engines]\nkind = "ollama"\n', "[[engines]]\nslots = 2\n"])
def test_an_entry_that_is_none_is_shown_how(tmp_path: Path, text: str) -> None:
    """One bracket too few, or no kind: the sentence has the two lines that would be right."""
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, text), {})
    shown = caught.value.sentence.split("\n", 1)[1]
    assert load(written(tmp_path, shown), {}).engines[0].kind == "ollama"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("PAIRPROXY_ROUTING_POLCY", "PAIRPROXY_ROUTING_POLICY"),
        ("PAIRPROXY_LIMIT_ATTEMPTS", "PAIRPROXY_LIMITS_ATTEMPTS"),
        ("PAIRPROXY_HOEM", "PAIRPROXY_HOME"),
        ("PAIRPROXY_ZZZZZZZZZZZZZZZZZZZZ", "docs/configuration.md"),
    ],
)
def test_a_mistyped_variable_is_refused(name: str, said: str) -> None:
    """It would do nothing in silence; the nearest known name is said."""
    with pytest.raises(ConfigError, match=name) as caught:
        load(None, {name: "1", "PAIRPROXY_HOME": "/h", "PAIRPROXY_CACHE": "/c", "PAIRPROXY_CLIENTS": "/x"})
    assert said in caught.value.sentence


def test_the_other_variables_are_let_be() -> None:
    """Where the home and the cache are is no setting, and what others are called is their affair."""
    known = {
        "PAIRPROXY_HOME": "/h",
        "PAIRPROXY_CACHE": "/c",
        "PAIRPROXY_CLIENTS": "/x",
        "PAIR": "",
        "HOME": "/",
    }
    assert load(None, known) == Settings()


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    """A missing file and one that is not text are told apart, by name."""
    with pytest.raises(ConfigError, match="There is no settings file"):
        load(tmp_path / "none.toml", {})
    file = tmp_path / "binary.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not TOML"):
        load(file, {})
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, {})


@pytest.mark.parametrize("told", ["true", "1"])
def test_prompts_are_never_kept(told: str) -> None:
    """The key can say nothing else, wherever it stands."""
    assert load(None, {"PAIRPROXY_HISTORY_PROMPTS": "false"}).history.prompts is False
    with pytest.raises(ConfigError, match="prompts are never kept"):
        load(None, {"PAIRPROXY_HISTORY_PROMPTS": told})
    with pytest.raises(ConfigError, match="prompts are never kept"):
        load(None, {}, {"history": {"prompts": True}})


def test_history_has_room_for_its_own_reserve() -> None:
    """Less than SQLite's own files need is refused."""
    with pytest.raises(ConfigError, match=r"history\.keep_bytes"):
        load(None, {"PAIRPROXY_HISTORY_KEEP_BYTES": "1000000"})
    assert load(None, {"PAIRPROXY_HISTORY_KEEP_DAYS": "0"}).history.keep_days == 0
