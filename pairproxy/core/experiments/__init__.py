"""The experiments by which the scheduler is judged: seeds in, rows of case, target, value and verdict out.

    verdicts   a Case: how to measure one seed, and the Targets its samples must meet; judged() makes the rows
    setup      what is under test (a policy), and the public traces if they are at hand
    measures   the best single node alone, the lower bound, and what one simulated run is worth beside them
    rigs       the clusters
    bursts prefixes loads faults agents    the cases; catalogue: all of them, in order

One case by hand:  ``judged(case, [case.measure(seed, Setup()) for seed in range(20)])``. A new policy is
compared by ``Setup(policy="its name")``. ``scripts/simulate`` runs them all, on several cores.
"""
