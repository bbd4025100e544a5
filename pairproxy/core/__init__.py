"""The pure middle: it is told what happened (events) and answers what to do (commands).

No clock, no sockets, no awaiting, no files, no logging. Time is ``event.at`` in seconds on a
monotonic clock; randomness is a ``random.Random`` given at construction. The daemon, the simulator
and the tests run the same scheduler.
"""
