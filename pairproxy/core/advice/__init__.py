"""What would make a workload faster, from what was measured and what the simulator finds.

::

    a recorded run -> gathering -> Evidence                       (evidence)
    its recording  -> trials: the run again with one thing otherwise, by the production scheduler
    both           -> tree: one conclusion a lever, each with the numbers it rests on
    its recording  -> levers: routing, prefix affinity and slots, each alone and all at once
"""
