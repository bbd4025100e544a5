"""Who looks on at the bridge."""

from pairproxy.core.events import NodeReported, RequestArrived
from tests.support.bridge import bridge, succeed
from tests.support.running import run_async


def test_who_listens_hears_the_kinds_it_named() -> None:
    """And who names none, all."""

    async def main() -> None:
        async with bridge() as one:
            heard: list[str] = []
            one.dispatcher.listen(
                lambda event, _: heard.append(type(event).__name__), NodeReported, RequestArrived
            )
            one.hear_of_peer()
            await one.run("r", succeed)
            one.report()
            assert heard == ["NodeReported", "RequestArrived"]
            told = [type(event).__name__ for event in one.events]
            assert told[1:] == [*heard, "FirstByteReceived", "AttemptFinished", "EngineReported"]

    run_async(main())
