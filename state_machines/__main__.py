"""`python -m state_machines` is `stranded`."""

from state_machines.cli import main

main()
