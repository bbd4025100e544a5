"""Being a good guest: peers get slots of this machine only while its owner does not mind.

::

    machine ----> presence ----> offering ----> "" or the reason, for the scheduler and all faces
                                    ^
    drained (a person said so) -----+---- peers.share, peers.on_battery

machine     what can be read of this machine's use, by
  processor   the use of it by programs other than engines and pairproxy
  graphics    the same of graphics cards
  inputs      keyboard and mouse
  power       whether it runs on a battery
presence    whether somebody uses it, with patience both ways
drained     what `pairproxy drain` wants, kept over a restart
offering    what follows from all of it, told on change; hosting makes that of a daemon
"""
