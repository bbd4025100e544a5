"""scripts/bench budget: what a request may cost beside a plain pass-through, for CI.

limits.py    what each case cost when it was measured, and what it may cost (pure)
load.py      an upstream and clients that make exactly the same work each time, without a compiler
measuring.py a daemon and the pass-through on one core, in turn; and the calls of functions in a daemon
counting.py  is run around a daemon to count them
command.py   the command
"""
