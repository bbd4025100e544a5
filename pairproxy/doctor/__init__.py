"""Is it set up right: what is looked at, what is wrong, and the command that mends it.

facts       all that was found out, as values; what could not be found out says why
probes/     how each is found out, in a bounded time
checks/     facts -> findings: small functions without a clock, a file or a socket
examining   runs the probes together, and the checks after them
measuring   how many requests an engine really computes at once
holes       the versions of engines with known holes
redacting   stand-ins for names, addresses and paths
bundle      a file for a bug report, redacted
"""
