"""The engine in virtual time: what the test harness and `onthedot simulate` have in common."""
