"""`python -m tidegate` is the `tidegate` command."""

from tidegate.gateway.cli.main import main

main()
