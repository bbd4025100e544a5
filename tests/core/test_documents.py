from dataclasses import replace

import msgspec

from pairproxy.core.documents import PrefixNews, Promise, StateDocument, Wanted
from tests.core.told import B, C, M, document


def test_a_document_survives_the_wire() -> None:
    """All that a node publishes comes out of JSON as it went in, hashes of 64 bits included."""
    plain = document(B)
    news = PrefixNews(3, 2, added=(2**64 - 1, 0), removed=(7,))
    engine = replace(plain.engines[0], prefixes=news, promises=(Promise(C, 0.25),), foreign=1)
    able = replace(
        engine.replicas[0].replica, capabilities=frozenset({"tools"}), called="n", context_tokens=9
    )
    engine = replace(engine, replicas=(replace(engine.replicas[0], replica=able),))
    told = replace(plain, engines=(engine,), wanted=(Wanted(M, 2, 900.0, 300.0, 1.5, (5,)),))
    assert msgspec.json.decode(msgspec.json.encode(told), type=StateDocument) == told
