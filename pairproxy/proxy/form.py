"""The form of a request: what has to be true of its line and framing before anybody looks at its content."""

from pairproxy.core.errors import BadRequest, CodingUnknown, MethodNotAllowed, VersionUnknown
from pairproxy.proxy.request import HttpRequest

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def check_form(request: HttpRequest) -> None:
    """Refuse what is well formed (head) and no engine's affair.

    Raises VersionUnknown, MethodNotAllowed, CodingUnknown, BadRequest.
    """
    if request.version not in ((1, 0), (1, 1)):
        raise VersionUnknown("Only HTTP/1.0 and HTTP/1.1 are spoken here.")
    if request.method not in METHODS:
        raise MethodNotAllowed("This method is not known here.")
    if not request.raw_path.startswith("/"):
        raise BadRequest("The request target has to be a path.")
    codings = request.headers.getall("Transfer-Encoding", [])
    if codings and request.version < (1, 1):
        raise BadRequest("HTTP/1.0 has no Transfer-Encoding.")
    if codings and [coding.strip().lower() for coding in codings] != ["chunked"]:
        raise CodingUnknown("The only Transfer-Encoding known here is chunked.")
