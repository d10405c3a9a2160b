"""What to do, decided by pure functions of frozen views.

Live controllers, the simulator, `explain` and the tests all call what is here. Nothing in this package does I/O,
reads a clock, draws a random number or writes a log: `now` is an argument, and the answer is data.
"""
