from pairproxy.cli.bench.recalled import QUEUED, Recalled, took_ms


def test_what_is_recalled_is_what_is_said() -> None:
    """A run that ended, a full queue, and all slots of the peers taken."""
    recalled = Recalled(40, 4)
    report = recalled.view.report(None)()
    assert report.run is not None
    assert (report.run.requests, report.run.outcomes, len(report.records)) == (40, {"done": 40}, 40)
    status, took = took_ms(recalled.view.status())
    assert took >= 0
    assert (len(status.nodes), len(status.running), len(status.waiting)) == (4, 6, QUEUED)
