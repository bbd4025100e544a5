from pairproxy.core.accounting.services import Service
from pairproxy.core.errors import BrokenReply
from pairproxy.core.models import Usage
from tests.core.accounting.conversation import A, B, Told, at, dispatch

SOME_USAGE = Usage(prompt_tokens=120, output_tokens=30)


def test_services_charge_each_attempt_and_give_the_tokens_to_the_last() -> None:
    """A failed attempt kept its place busy but replied nothing."""
    told = Told()
    told.arrived(0.0, "r", dispatch("r", A))
    told.failed(2.0, "r", BrokenReply("It broke off."), dispatch("r", B, number=2))
    told.finished(6.0, "r", number=2, usage=SOME_USAGE)
    assert list(told.only.services()) == [
        Service(at(A), 0.0, 2.0, is_reply=False),
        Service(at(B), 2.0, 6.0, output_tokens=30, prompt_tokens=120, is_reply=True),
    ]
