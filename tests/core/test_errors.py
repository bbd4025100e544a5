import re
from collections.abc import Iterator

from pairproxy.core import errors
from pairproxy.core.errors import PairproxyError, SetupError


def tree(kind: type[PairproxyError] = PairproxyError) -> Iterator[type[PairproxyError]]:
    """A class and all below it, if made in core.errors."""
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


def test_the_drawing_is_the_tree() -> None:
    """Each class stands in the drawing with the status it has; what says that it may be retried, may be."""
    assert errors.__doc__ is not None
    drawn = {
        found[1]: (found[2], "may retry" in found[3])
        for found in re.finditer(r"[|`]- (\w+)(?: +(\d{3}))?(.*)", errors.__doc__)
    }
    real = {kind.__name__: kind for kind in tree()}
    assert set(drawn) == set(real) - {"PairproxyError"}
    for name, (status, may_retry) in drawn.items():
        assert not status or real[name].status == int(status)
        assert not may_retry or real[name].may_retry


def test_an_error_speaks_to_a_person() -> None:
    """Its text is its sentence."""
    error = errors.QueueFull("Try again in a moment.", retry_after_s=3)
    assert (str(error), error.sentence, error.retry_after_s) == ("Try again in a moment.",) * 2 + (3,)


def test_what_the_client_can_mend_is_not_tried_elsewhere() -> None:
    """Nor is what a person must set right on this machine."""
    for kind in tree():
        if issubclass(kind, errors.RequestError | SetupError | errors.ReplyTruncated):
            assert not kind.may_retry
