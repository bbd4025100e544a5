"""The settings as they are told: what commands and the daemon say of them is in tests/cli/test_config.py."""

import msgspec

from pairproxy.api.settings import SettingsInForce, ShownSetting


def test_what_is_not_so_is_left_out() -> None:
    """A hundred settings are easier to read without five empty fields each; a value of null is one."""
    told = msgspec.to_builtins(ShownSetting("peers.max_slots", None, "default"))
    assert told == {"key": "peers.max_slots", "value": None, "source": "default"}
    differing = ShownSetting("log.level", "info", "file", line=2, differs=True, remedy="reload")
    assert msgspec.convert(msgspec.to_builtins(differing), ShownSetting) == differing


def test_a_daemon_of_a_later_version_may_have_more_settings() -> None:
    """Whoever reads them does not mind."""
    told = b'{"node":"n","settings":{"new.key":[1]},"more":1}'
    assert msgspec.json.decode(told, type=SettingsInForce).settings == {"new.key": [1]}
