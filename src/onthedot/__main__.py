"""`python -m onthedot` is `onthedot`."""

from onthedot.cli.main import main

main()
