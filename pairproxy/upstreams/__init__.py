"""The client side of forwarding: requests out to an engine or a peer, replies back untouched.

::

    Upstream.send(Outgoing) -> Reply -> relay() to a Sink | read() | lines() | abandon()
        |  IdlePool      connections between two requests, reused only where that is safe
        |  Connection    what asyncio calls a protocol: one exchange at a time
        |  HeadReader    status line and headers (httptools, and rules of our own)
        `  Framing       where the body ends, and what it holds; never changes a byte

``upstream`` knows pools, TLS and pins; ``incoming`` what comes, ``reply`` and ``lines`` what is taken of it,
``sink`` who takes it; ``outbox`` when small writes leave; ``turns`` who may shake hands with a peer;
``framing`` and ``head`` know bytes and nothing of sockets; ``sockets`` holds what differs between platforms.
"""

from pairproxy.upstreams.connection import host_header
from pairproxy.upstreams.head import Head
from pairproxy.upstreams.outgoing import Outgoing
from pairproxy.upstreams.reply import Reply
from pairproxy.upstreams.sink import FunctionSink, Sink
from pairproxy.upstreams.upstream import Reachable, Upstream

__all__ = ["FunctionSink", "Head", "Outgoing", "Reachable", "Reply", "Sink", "Upstream", "host_header"]
