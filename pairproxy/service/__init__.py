"""The daemon as a service of this system: installed, started by itself, told of by whoever supervises it.

::

    supervised         what a running daemon and its service manager tell each other: sockets, readiness, life
    ways               the ways to be a service that this system has, and which are in use
      |- systemd       a unit of a person's own manager, or of the system
      |   `- systemd_unit  its text
      |- launchd       a launch agent of macOS
      `- windows       a scheduled task of Windows
    wanted             what a service is to run: the daemon of this installation
    plans              what installing and removing change, whose file it is, when it counts as started
      `- changes       done in order, taken back if one fails
"""
