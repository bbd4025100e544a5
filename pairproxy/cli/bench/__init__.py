"""pairproxy bench: policies side by side on whole daemons, against the best single node and the bounds.

rig.py        the nodes: paced engines of given speeds, for daemons and for the simulator
workloads.py  what is asked: the simulator's requests, so that both run the same
asking.py     asks it as clients do
legs.py       one workload once on a private cluster; no engine may ever hold more than its slots
figures.py    legs -> speedup, bounds, efficiency, percentiles (pure)
model.py      the same in the simulator
rounds.py     all legs of a bench in turn
here.py       against the daemon that runs here, with its own models
levers.py     routing, prefix affinity and slots on a recorded run, simulated; levers_here.py: measured
show.py       the result for people and for machines
tables.py     what scripts/bench prints: figures beside their targets
"""

from pairproxy.cli.bench.command import bench

__all__ = ["bench"]
