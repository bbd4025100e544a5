"""Moving an engine off its port and back: politely, reversibly, hard to get wrong.

owning   who holds the port: process, unit, app, container; by cgroups (Linux), elsewhere (paths of programs)
moving   what a mover is: it knows one way of moving an engine, and makes the plan of it: steps
    systemd, macos, homebrew, windows (with its registry), lmstudio; refusing says no to everybody else
    ollama_host, ollama_app, places: what several of them have to know
plan     what is to be done about each engine: looked at, never done
steps    one change of this machine each, with what undoes it exactly: files, restarting
machine  what steps act through: running (commands of the system), system (this machine), asking (the engine)
record   the steps begun so far, on disk before each of them: the undo record
taking   does the steps and undoes them; gap measures how long nobody was on the port, stopping minds Ctrl-C
acting   all engines of a home: what commands and `up` call
mending  an engine that is not where it was moved to
leaks    variables by which clients get past the front
"""
