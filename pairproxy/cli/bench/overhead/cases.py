"""The workloads: who asks for what, and how many at once."""

import json
from dataclasses import dataclass

TOKENS = 100  # of a stream: a short reply, so that beginnings and ends count as they do in life
PACE_US = 10_000  # between tokens: what a fast engine writes for one reader
ENDLESS_TOKENS = 1_000_000  # 200 MB that nobody reads: more than any buffer may take
SYSTEM = "You are a helpful assistant."
ASKED = "Write one hundred tokens about the sea, please."


@dataclass(frozen=True, slots=True)
class Case:
    """One workload. ``about`` says it in words; ``padding_bytes`` are added to the prompt."""

    name: str
    about: str
    clients: int
    is_stream: bool = False
    gap_us: int = 0
    padding_bytes: int = 0
    is_stalled: bool = False  # clients stop reading after their first byte
    is_through_peer: bool = False

    @property
    def tokens(self) -> int:
        """What each reply brings; 1 of a whole document."""
        if self.is_stalled:
            return ENDLESS_TOKENS
        return TOKENS if self.is_stream else 1

    def body(self, model: str) -> bytes:
        """What each client sends."""
        messages = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": ASKED + " sea" * (self.padding_bytes // 4)},
        ]
        asked = {"model": model, "stream": self.is_stream, "messages": messages, "temperature": 0}
        return json.dumps(asked).encode()


CASES = (
    Case("json-1", "small JSON, one client", 1),
    Case("paced-64", "64 streams, 10 ms a token", 64, is_stream=True, gap_us=PACE_US),
    Case("paced-512", "512 streams, 10 ms a token", 512, is_stream=True, gap_us=PACE_US),
    Case("json-64", "small JSON, 64 clients", 64),
    Case("flat-64", "64 streams, as fast as possible", 64, is_stream=True),
    Case("flat-512", "512 streams, as fast as possible", 512, is_stream=True),
    Case("40kB", "bodies of 40 kB, 16 clients", 16, padding_bytes=40_000),
    Case("5MB", "bodies of 5 MB, 4 clients", 4, padding_bytes=5_000_000),
    Case("stalled", "64 clients that stop reading", 64, is_stream=True, is_stalled=True),
    Case("peer-1", "small JSON through a peer, one client", 1, is_through_peer=True),
    Case("peer-paced-16", "16 such streams through a peer", 16, True, PACE_US, is_through_peer=True),
)
