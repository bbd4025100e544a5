"""The cluster on a terminal: one page of it, or the same page live.

::

    Status --> page (nodes, run, requests, notes: lines of text, no wider and no more than the screen)
                 --> live (feed: fresh Status in a thread; keys: the keyboard) --> terminal

All but ``live``, ``feed`` and ``keys`` are functions of their arguments.
"""
