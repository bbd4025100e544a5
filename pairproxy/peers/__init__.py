"""The other machines: where they may be (discovery), whether they are there (link), what they publish.

announcement.py  one mDNS announcement, read as the hostile input it is
links.py         this machine's network interfaces
discovery.py     mDNS as a source of address hints, never of trust or presence
exchange.py      state documents, both ways: the heartbeat
link.py          one paired peer: its addresses, its connection
book.py          all paired peers
"""
