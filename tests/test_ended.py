import logging
from dataclasses import replace

import pytest

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.errors import ModelNotFound
from pairproxy.core.models import ModelName
from pairproxy.ended import UNKNOWN, Ended
from tests.core.accounting.conversation import A, Told, dispatch, refuse


def records() -> tuple[RequestRecord, RequestRecord]:
    """One request that was served, and one for a model that nobody has."""
    told = Told()
    told.arrived(0.0, "r", dispatch("r", A))
    told.arrived(0.0, "q", refuse("q", ModelNotFound("There is no model secret.")))
    told.finished(2.0, "r")
    nobodys, served = told.ledger.records
    return served, nobodys


def test_all_hear_of_each() -> None:
    """What a node holds is told as it is, in the order of following."""
    served, _ = records()
    heard: list[tuple[str, RequestRecord]] = []
    ended = Ended(lambda model: model == "m")
    ended.follow(lambda record: heard.append(("first", record)))
    ended.follow(lambda record: heard.append(("second", record)))
    ended.hear(served)
    assert heard == [("first", served), ("second", served)]


def test_a_name_that_nobody_holds_is_not_told() -> None:
    """Neither as the model nor in the sentence of the error."""
    _, nobodys = records()
    heard: list[RequestRecord] = []
    ended = Ended(lambda model: False)
    ended.follow(heard.append)
    ended.hear(nobodys)
    assert (heard[0].model, heard[0].error) == (UNKNOWN, "ModelNotFound")
    assert heard[0].outcome == nobodys.outcome
    assert "secret" not in repr(heard[0])


def test_who_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """The next one hears of it all the same, and the log says what it was, without its words."""
    served, _ = records()
    heard: list[RequestRecord] = []

    def fails(record: RequestRecord) -> None:
        raise ValueError(record.model + ModelName("CANARY"))

    ended = Ended(lambda model: True)
    ended.follow(fails)
    ended.follow(heard.append)
    with caplog.at_level(logging.ERROR):
        ended.hear(served)
    assert heard == [served]
    assert "ValueError" in caplog.text
    assert "CANARY" not in caplog.text


def test_whether_a_node_has_a_name_is_asked_once_a_second() -> None:
    """A yes is good for a second of the records' clock; a no is asked for each time."""
    served, nobodys = records()
    asked: list[ModelName] = []
    is_there = True

    def holds(model: ModelName) -> bool:
        asked.append(model)
        return is_there

    heard: list[RequestRecord] = []
    ended = Ended(holds)
    ended.follow(heard.append)
    for late_s in (0.0, 0.9, 1.0):
        ended.hear(replace(served, ended_at=served.ended_at + late_s))
    assert asked == [served.model, served.model]
    is_there = False
    for _ in range(2):
        ended.hear(replace(nobodys, model=ModelName("q")))
    ended.hear(replace(served, ended_at=served.ended_at + 2.0))
    assert [one.model for one in heard] == [*[served.model] * 3, *[UNKNOWN] * 3]
    assert len(asked) == 5
