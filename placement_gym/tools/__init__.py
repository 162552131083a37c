"""What an engineer runs once: a plan, an evaluation, a test of the simulator."""
