"""What ended, kept on disk: history.db in the home directory, bounded by days and bytes. Never a word of it.

::

    ledger --record--> keeping (which run) --> pending --> writing (a thread) --> store --> history.db
    dispatcher --event--> changes (nodes) -------^                                             |
                                         reading (read-only, also with no daemon) <-----------'
    rows: a record as a row and back      schema: tables, and how older ones become these
    trimming: what goes, oldest first     exporting: as JSON lines and CSV
    rebuilding: what a killed daemon left     faults: in sentences

Whatever fails here harms no request: it is told, and what ended waits in memory, within bounds.
"""
