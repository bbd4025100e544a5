"""python -m pairproxy."""

from pairproxy.cli import main

main()
