"""Every error pairproxy makes itself. The class knows its HTTP status and whether another node may be tried.

::

    PairproxyError
     |- RequestError                   the client can mend it
     |   |- BadRequest            400
     |   |- NotAllowed            403  Host, Origin, or a route that peers may not use
     |   |   |- PeerNotTrusted    403  told to a machine that is not paired,
     |   |   |- PeerRevoked       403  to one that was,
     |   |   |- UseNotAllowed     403  to one that is, but may not use this node,
     |   |   `- ProtocolDiffers   403  to one that speaks another version of the protocol between nodes
     |   |- NotAuthenticated      401  a client beyond loopback without a key that is known,
     |   |- TooManyFailures       429  or one that showed too many such,
     |   |- BeyondItsKey          403  or one whose key is not for what it asks
     |   |- ModelNotFound         404
     |   |- NotRemembered         404  a request or run of which the daemon knows nothing
     |   |- CopyFailed            409  a model that cannot be copied to this node, or from it
     |   |- MethodNotAllowed      405
     |   |- BodyTooLarge          413
     |   |- BodyTooSlow           408
     |   |- ExpectationFailed     417
     |   |- CodingUnknown         501  a Transfer-Encoding other than chunked
     |   `- VersionUnknown        505
     |- Refusal                        nobody is to blame; later it works
     |   |- QueueFull             503
     |   |- QueueTimeout          503
     |   |- Draining              503
     |   |- SlotsTaken            409  a peer's slot went to somebody else
     |   `- Moved                 503  taken back to be done sooner elsewhere, never shown: may retry
     |- UpstreamError                  an engine or a peer did not do its part
     |   |- Unreachable           502  before a byte of the request was sent: may retry
     |   |- BrokenReply           502  before the first body byte: may retry
     |   |- NotServed           502  a node cannot take this one request, its size for one: may retry
     |   |- UpstreamBusy          503  it said 429 or 503: may retry
     |   |- NodeGone              502  its heartbeat stopped before the first body byte: may retry
     |   |- NotTrusted            502  another key answered at its address: may retry
     |   `- ReplyTruncated        502  after the first body byte: may not
     `- SetupError                     said on the terminal, exit status 1
         |- ConfigError
         |- PortTaken
         |- EngineUnavailable
         |- PairingFailed
         `- StoreError                 a file of the home directory that cannot be used

Each instance carries a sentence for a person that says what to do next. It never holds any part of a
prompt, a reply or a key: foreign exceptions are translated where they enter, and their text is dropped.
"""

from typing import ClassVar


class PairproxyError(Exception):
    """Base of all errors made here. ``str(error)`` is the sentence for a person."""

    status: ClassVar[int] = 500
    may_retry: ClassVar[bool] = False

    def __init__(self, sentence: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.retry_after_s = retry_after_s


class RequestError(PairproxyError):
    status = 400


class BadRequest(RequestError):
    status = 400


class NotAllowed(RequestError):
    status = 403


class PeerNotTrusted(NotAllowed):
    pass


class PeerRevoked(NotAllowed):
    pass


class UseNotAllowed(NotAllowed):
    pass


class ProtocolDiffers(NotAllowed):
    pass


class NotAuthenticated(RequestError):
    status = 401


class TooManyFailures(RequestError):
    status = 429


class BeyondItsKey(RequestError):
    status = 403


class ModelNotFound(RequestError):
    status = 404


class NotRemembered(RequestError):
    status = 404


class CopyFailed(RequestError):
    status = 409


class MethodNotAllowed(RequestError):
    status = 405


class BodyTooLarge(RequestError):
    status = 413


class BodyTooSlow(RequestError):
    status = 408


class ExpectationFailed(RequestError):
    status = 417


class CodingUnknown(RequestError):
    status = 501


class VersionUnknown(RequestError):
    status = 505


class Refusal(PairproxyError):
    status = 503


class QueueFull(Refusal):
    pass


class QueueTimeout(Refusal):
    pass


class Draining(Refusal):
    pass


class SlotsTaken(Refusal):
    status = 409
    may_retry = True


class Moved(Refusal):
    may_retry = True


class UpstreamError(PairproxyError):
    status = 502


class Unreachable(UpstreamError):
    may_retry = True


class BrokenReply(UpstreamError):
    may_retry = True


class NotServed(UpstreamError):
    may_retry = True


class UpstreamBusy(UpstreamError):
    status = 503
    may_retry = True


class NodeGone(UpstreamError):
    may_retry = True


class NotTrusted(UpstreamError):
    may_retry = True


class ReplyTruncated(UpstreamError):
    pass


class SetupError(PairproxyError):
    pass


class ConfigError(SetupError):
    pass


class PortTaken(SetupError):
    pass


class EngineUnavailable(SetupError):
    pass


class PairingFailed(SetupError):
    pass


class StoreError(SetupError):
    pass
