"""Who gives way where strangers open more connections than there are places for.

The oldest of the address that has most: an honest connection shakes hands or says its word within
milliseconds, so nobody waits for those that hang; and unlike a packet a TCP connection comes from a real
address, so who opens thousands a second drives out only its own.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

One = TypeVar("One")


def gives_way(hosts: Mapping[One, str]) -> One:
    """Which of the connections, the oldest first and each with its caller's address, is closed for a new one.

    Raises ValueError if there is none.
    """
    counts = Counter(hosts.values())
    return max(hosts, key=lambda one: counts[hosts[one]])  # the first of them
