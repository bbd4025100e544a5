"""Going on from delivered text: what is left to ask for of a reply that lost its node in the middle.

A reply that lost its node after its first byte cannot be begun again, for its client has read a part of it.
Where an engine goes on with a text that it is given as the beginning of its own reply, another node can write
the rest (docs/scheduling.md, "Continuation"). The text itself is the proxy's; here it is only counted.
"""

from dataclasses import replace

from pairproxy.core.errors import PairproxyError, ReplyTruncated
from pairproxy.core.models import Replica, Request


def rest_of(request: Request, begun: Replica | None, delivered_tokens: int) -> Request | None:
    """The request for the rest of a reply of which ``begun`` wrote so many tokens; None: there is none.

    What was delivered is read as a part of the prompt, and no more is written than was asked for in all. The
    blocks of the prompt stay what they were: the lost node alone holds the text in its cache.
    """
    began = request.begun or begun
    if request.origin is not None or began is None or not began.identity:
        return None
    limit = request.max_output_tokens
    return replace(
        request,
        begun=began,
        prompt_tokens=request.prompt_tokens + delivered_tokens,
        max_output_tokens=None if limit is None else max(limit - delivered_tokens, 1),
    )


def final_error(request: Request, error: PairproxyError) -> PairproxyError:
    """The error that ends a request: what was delivered of a reply stays delivered, whatever came then."""
    if request.begun is None or isinstance(error, ReplyTruncated):
        return error
    return ReplyTruncated("The node that was answering was lost, and no other went on. Send it again.")
