"""pairproxy: one port, several machines, each request whole on the node that finishes it first.

The map of the package, with the way a request takes (arrows are calls)::

    client -> proxy.client_port -> core.dialects         what is asked, in whose words
                    |
                    v
               dispatcher -> core.scheduler              event in, commands out; pure
                    |
                    v
              proxy.forward -> upstreams -> engine or peer (its proxy.peer_port)

    engines.monitor, peers.exchange, peers.discovery     tell the dispatcher what happened
    core.accounting                                      hears every event, writes the report
    admin -> api -> cli                                  one JSON, read by all faces
    daemon                                               builds and wires all of it

The words used here are defined in ``docs/architecture.md``; one word per idea.
"""

import importlib.machinery
import importlib.util

__version__ = "0.1.0"


def is_compiled() -> bool:
    """Whether the path of a request runs compiled, as in a wheel that a C compiler helped to build."""
    found = importlib.util.find_spec("pairproxy.core.scheduler")  # looked for, not imported
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    return found is not None and found.origin is not None and found.origin.endswith(suffixes)
