"""pairproxy demo: two nodes on this machine, five sub-agents, alone against together.

cluster.py   the nodes: real daemons in processes of their own, with homes that trust each other
job.py       what the sub-agents ask, through the official clients
legs.py      alone and together in turn, and which node did what
show.py      the same on the terminal
"""

from pairproxy.cli.demo.command import demo

__all__ = ["demo"]
