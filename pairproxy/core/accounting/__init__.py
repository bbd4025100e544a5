"""What happened, counted honestly: every claim stands next to a bound.

::

    events, commands -> ledger.Ledger -> RequestRecord -> runs.group_runs -> Run
                                                                              |
    bounds: the formulas  ------------------------------> report.report_run -> RunReport
                          '-> comparison.compare(alone legs, together legs) -> Comparison -> explain()

Nothing here knows a clock: times are ``event.at`` of one origin.
"""
