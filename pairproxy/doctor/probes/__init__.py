"""How each fact is found out. Every probe takes a bounded time and answers Unknown rather than fail.

scene         what is looked at: home, environment, the system's commands
asking        the daemon: status, models, its process
machine       this Python
listening     who listens where
engines       the engines of this machine, and what their processes were told
surroundings  variables that lead clients elsewhere
files         modes, space, settings, peers, history
multicast     who answers mDNS on each interface
firewall      what the packet filter keeps shut
installing    what was taken over, and the service
"""
