"""Tables, statistics, plots and reports."""
