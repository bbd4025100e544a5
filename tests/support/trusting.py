"""Records of peers, and stores as the next life of a daemon finds them."""

import msgspec

from pairproxy.security.identity import Identity
from pairproxy.security.peer_record import PeerRecord
from pairproxy.security.trust import TrustStore


def record_of(identity: Identity, **changes: object) -> PeerRecord:
    """A valid record of that node, with some fields changed."""
    record = PeerRecord(
        node=identity.device_id,
        name="anna",
        certificate=identity.certificate,
        may_use_me=True,
        i_may_use=False,
    )
    return msgspec.structs.replace(record, **changes)


def reloaded(store: TrustStore) -> TrustStore:
    """The store as the next life of the daemon finds it."""
    again = TrustStore(store._home, store._own)
    again.load()
    return again
