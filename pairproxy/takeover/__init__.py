"""Moving an engine off its port and back: politely, reversibly, hard to get wrong.

owning   who holds the port: process, unit, app, container
a mover  knows one way of moving an engine (systemd, launchd, ...) and makes the plan of it: steps
steps    one change of this machine each, with what undoes it exactly
record   the steps begun so far, on disk before each of them: the undo record
"""
