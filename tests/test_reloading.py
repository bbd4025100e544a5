import asyncio
import logging
from collections.abc import Callable

import msgspec
import pytest

from pairproxy.config import (
    AdminSettings,
    DebugSettings,
    EngineSettings,
    LogSettings,
    NodeSettings,
    RoutingSettings,
    Section,
    Settings,
)
from pairproxy.core.errors import ConfigError
from pairproxy.reloading import LIVE, Reloading, differing
from tests.support.fake_engine import eventually
from tests.support.running import run_async

OLD = Settings()
NEW = Settings(
    node=NodeSettings(name="anna"),
    engines=(EngineSettings(kind="ollama"),),
    routing=RoutingSettings(policy="least-busy"),
    admin=AdminSettings(listen="127.0.0.1:1"),
    debug=DebugSettings(headers=True),
)


def reloading(read: Callable[[], Settings]) -> tuple[Reloading, list[Settings]]:
    """One that began with OLD, and what it put in force."""
    applied: list[Settings] = []
    return Reloading(OLD, read, applied.append), applied


def test_what_can_be_applied_is_and_the_rest_is_named() -> None:
    """The settings put in force have the old ports and engines, and the answer says which need a restart."""
    changing, applied = reloading(lambda: NEW)
    told = run_async(changing.reread())
    assert told.applied == ("node.name", "routing.policy", "debug.headers")
    assert told.needs_restart == ("engines", "admin.listen")
    assert applied == [msgspec.structs.replace(NEW, engines=(), admin=AdminSettings())]


def test_what_needs_a_restart_is_named_until_it_is_taken_back() -> None:
    """A second reading says it again although nothing else changed; with the old value it is no change."""
    answers = [NEW, NEW, OLD]
    changing, applied = reloading(lambda: answers.pop(0))

    async def scene() -> None:
        await changing.reread()
        again = await changing.reread()
        assert (again.applied, again.needs_restart) == ((), ("engines", "admin.listen"))
        back = await changing.reread()
        assert (set(back.applied), back.needs_restart) == (
            {"node.name", "routing.policy", "debug.headers"},
            (),
        )

    run_async(scene())
    assert len(applied) == 2
    assert applied[-1] == OLD


def test_settings_with_a_fault_change_nothing_and_the_next_good_ones_are_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A file that cannot be read, or a value that cannot be put in force, is said; the task goes on."""

    def broken() -> Settings:
        if not faults:
            return NEW
        raise faults.pop()

    faults = [ConfigError("config.toml is not TOML.")]
    changing, applied = reloading(broken)

    async def scene() -> None:
        task = asyncio.create_task(changing.run())
        changing.want()
        await eventually(lambda: "config.toml is not TOML." in caplog.text)
        assert applied == []
        changing.want()
        await eventually(lambda: len(applied) == 1)
        task.cancel()

    with caplog.at_level(logging.INFO):
        run_async(scene())
    assert "restart to apply: engines, admin.listen" in caplog.text


def test_a_value_that_cannot_be_put_in_force_leaves_the_old_ones() -> None:
    """What apply refuses is not counted as applied: the next reading tries it again."""
    refusals = [ConfigError("peers.static is not host:port")]

    def apply(settings: Settings) -> None:
        if refusals:
            raise refusals.pop()

    changing = Reloading(OLD, lambda: NEW, apply)

    async def scene() -> None:
        with pytest.raises(ConfigError):
            await changing.reread()
        assert (await changing.reread()).applied == ("node.name", "routing.policy", "debug.headers")

    run_async(scene())


def test_every_live_key_is_a_setting_and_all_that_the_scheduler_goes_by_is_live() -> None:
    """A key that is misspelled in LIVE, or a rule forgotten there, would change nothing in silence."""
    keys = {
        f"{section}.{key}"
        for section in Settings.__struct_fields__
        if isinstance(part := getattr(OLD, section), Section)
        for key in part.__struct_fields__
    }
    assert keys >= LIVE
    assert {f"routing.{key}" for key in RoutingSettings.__struct_fields__} <= LIVE


def test_each_difference_is_named_once() -> None:
    """Equal settings differ in nothing; engines are one key."""
    assert list(differing(OLD, Settings())) == []
    assert list(differing(OLD, Settings(log=LogSettings(level="debug")))) == ["log.level"]
    assert list(differing(NEW, OLD)) == [
        "node.name", "engines", "routing.policy", "admin.listen", "debug.headers"
    ]  # fmt: skip
