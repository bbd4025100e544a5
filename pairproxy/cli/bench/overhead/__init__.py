"""scripts/bench overhead: what pairproxy costs a request, beside what others cost it, in one run on one core.

cases.py         the workloads: how many clients, which body, how many tokens at which pace
building.py      upstream and load generator (native/*.c), compiled at first use
compiling.py     pairproxy itself, as a compiled wheel has it
environments.py  other routers, each installed into an environment of its own
processes.py     children pinned to a core: started, until they answer, measured, stopped
targets.py       who stands in between: nothing, nginx, HAProxy, a plain pass-through
routers.py       other routers
document.py      the result for machines;  pages.py: in README.md and docs/performance.md
daemons.py       and pairproxy, alone and with a peer
measuring.py     one workload on one target
rounds.py        all of it in turn
figures.py       samples -> medians and ratios (pure)
gates.py         figures -> what was promised, kept or missed (pure)
showing.py       for people
facts.py         which machine it was
command.py       the command;  profiling.py: scripts/bench profile, drawn by flame.py
"""
