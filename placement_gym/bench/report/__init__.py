"""What is read: tables, statistics, plots and reports."""
