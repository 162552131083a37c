"""What operators and transfers cost: tables, and where their figures come from."""
