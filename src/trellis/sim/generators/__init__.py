"""What could a workload use? Shapes of usage, drawn: pure functions of parameters, times and a random generator.

Times are seconds since 1970, in UTC; what comes back is a column as long as they are. Amounts are cores or bytes.
"""
