"""What happened, counted honestly: every claim stands next to a bound.

::

    events, commands -> ledger.Ledger -> RequestRecord -> runs.group_runs -> Run
                                                                              |
    bounds: the formulas  ------------------------------> report.report_run -> RunReport
                          '-> comparison.compare(alone legs, together legs) -> Comparison -> explain()

    records of a run -> timeline.lay_out -> Timeline (one lane a slot) -> occupancy (how full the lanes are)
    RunReport, Timeline -> judging.judge -> Verdict: what limited the run, what would change it
    what is open now -> throughput (tokens a second of each node), progress (how far a run is)

Nothing here knows a clock: times are ``event.at`` of one origin.
"""
