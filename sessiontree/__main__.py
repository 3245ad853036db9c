"""`python -m sessiontree` is the command `sessiontree`."""

from sessiontree.cli import main

main(prog_name="sessiontree")
