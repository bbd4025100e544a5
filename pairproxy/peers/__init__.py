"""The other nodes: where they are, whether they are there, what they say about themselves.

discovery.py     mDNS: announces this node, tells where others say they are (announcement.py, links.py)
book.py          the paired peers; hints become addresses only of paired ones
link.py          one peer: its addresses, the connection on which it is heard
exchange.py      the state documents on that connection, both ways
"""
