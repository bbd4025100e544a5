"""The daemon as a service of this system: installed, started at log-in, told of by whoever supervises it.

supervised  what a running daemon and its service manager tell each other: sockets, readiness, signs of life
"""
