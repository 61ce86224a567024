"""From graphs to loops to code: the schedule, the loop IR and its printers."""
