"""The other machines: where they may be, whether they are there, what they publish; how they are paired.

::

    book                  all paired peers, one link each; who else was announced
      `- link             one peer: on which path it is heard, and whether it is there
           |- addresses   where it may be, in the order in which that is tried
           |- dialling    several addresses side by side
           |- rounds      when a peer that is not heard is tried again
           |- exchange    state documents, both ways: the heartbeat
           |    `- hearing   those of one peer at a bounded price
           `- catalogue   what its engines list, asked for when that changed
    remembered            where each peer proved its key, kept for the daemon's next life
    restarting            a boundary: a fault of ours in one link ends no other

    discovery             mDNS as a source of addresses, never of trust or presence
      |- announcement     one announcement, read as the hostile input it is
      `- own_addresses    this machine's own, by the interfaces on which others can be met
    network               notices sleep, and interfaces that come and go

Pairing runs in the commands `pair` and `join`; what comes when is core.handshake's, the keys are security's::

    pairing_host          the side that shows the code
    pairing_joiner        the side where it is typed
      |- pairing          one exchange over one connection; what it stored is undone if it fails
      |- pairing_frames   how that looks on the wire
      `- pairing_mdns     finding the machine that shows the code
"""
