import msgspec

from pairproxy.api.advice import Advice, AdviceReport


def test_advice_is_json_and_comes_back_as_it_was() -> None:
    """Faces read it by these names."""
    line = Advice("more-slots", True, "More slots: do.", {"queue_s": 1.5}, gain_s=2.0, gain=0.3)
    report = AdviceReport("n", "job", 4, (line,), model_error=0.02, missing=("none",))
    document = msgspec.json.encode(report)
    assert msgspec.json.decode(document, type=AdviceReport) == report
    assert msgspec.json.decode(document)["advice"][0]["numbers"] == {"queue_s": 1.5}
