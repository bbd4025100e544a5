"""What if it had been otherwise: a recorded run on other machines.

::

    Run, speeds of the nodes -> alone: on one node (the modelled T1 of the report)
                             -> company: how far the model is off on the run as it happened
    what `report --json` holds -> replay: the production scheduler, nodes added, removed or faster
"""
