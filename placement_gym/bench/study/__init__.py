"""Many runs: studies, where they run, and the replay of their results."""
