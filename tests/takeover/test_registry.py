"""A person's environment variables in the registry of Windows, here one in a file."""

import sys
from pathlib import Path

import pytest

from pairproxy.takeover.registry import (
    MACHINE,
    REG_EXPAND_SZ,
    REG_SZ,
    USER,
    UserVariables,
    announce,
    user_variables,
)
from tests.support.winreg import FileRegistry

CURRENT_USER, LOCAL_MACHINE = 0x80000001, 0x80000002


@pytest.fixture
def registry(tmp_path: Path) -> FileRegistry:
    """One with both keys."""
    registry = FileRegistry(tmp_path / "registry")
    registry.make(CURRENT_USER, USER, {"TEMP": ["%USERPROFILE%\\Temp", REG_EXPAND_SZ]})
    registry.make(LOCAL_MACHINE, MACHINE, {"OLLAMA_HOST": ["0.0.0.0", REG_SZ]})
    return registry


def test_a_value_comes_with_its_type(registry: FileRegistry) -> None:
    """One that holds %NAMES% has to go back as such."""
    assert UserVariables(registry).get("TEMP") == ("%USERPROFILE%\\Temp", REG_EXPAND_SZ)
    assert UserVariables(registry).get("OLLAMA_HOST") is None


def test_setting_and_deleting_touch_nothing_else(registry: FileRegistry) -> None:
    """Deleting what is not there is fine."""
    before, variables = registry.told, UserVariables(registry)
    variables.set("OLLAMA_HOST", "127.0.0.1:11534", REG_SZ)
    assert variables.get("OLLAMA_HOST") == ("127.0.0.1:11534", REG_SZ)
    variables.delete("OLLAMA_HOST")
    variables.delete("OLLAMA_HOST")
    assert registry.told == before


def test_the_machines_own_is_told_apart(registry: FileRegistry) -> None:
    """It is only looked at."""
    assert UserVariables(registry).of_machine("OLLAMA_HOST") == "0.0.0.0"
    assert UserVariables(registry).of_machine("TEMP") is None


def test_a_person_without_any_has_none(tmp_path: Path) -> None:
    """Not even the key."""
    assert UserVariables(FileRegistry(tmp_path / "registry")).get("OLLAMA_HOST") is None


@pytest.mark.skipif(sys.platform == "win32", reason="there it has a registry")
def test_other_systems_have_no_registry() -> None:
    """Nobody is told of a change there."""
    assert user_variables() is None
    announce()
