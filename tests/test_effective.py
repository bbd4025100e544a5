"""The settings laid flat."""

from typing import Any

import msgspec
import pytest

from pairproxy.config import EngineSettings, Settings, TracingSettings
from pairproxy.effective import flat


def test_every_setting_is_there_once_under_its_own_key() -> None:
    """And JSON can hold it."""
    found = flat(Settings(engines=(EngineSettings("ollama", slots=2), EngineSettings("paced"))))
    assert found["limits.attempts"] == 3
    assert (found["engines[0].kind"], found["engines[0].slots"]) == ("ollama", 2)
    assert found["engines[1].paced.decode"] == 50.0
    assert "engines" not in found
    assert msgspec.json.decode(msgspec.json.encode(found)) == found
    assert flat(Settings())["engines"] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318"),
        ("https://user:canary@box:4318/v1", "https://***@box:4318/v1"),
        ("https://canary@box/v1?key=canary#canary", "https://***@box/v1?***"),
        ("http://[canary", "***"),
    ],
)
def test_a_secret_in_an_address_is_hidden(text: str, shown: str) -> None:
    """People put keys there, and others look at the screen."""
    found: dict[str, Any] = flat(
        Settings(tracing=TracingSettings(text), engines=(EngineSettings("openai", url=text),))
    )
    assert (found["tracing.endpoint"], found["engines[0].url"]) == (shown, shown)
