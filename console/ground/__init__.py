"""What the product stands on when nothing is given to it: environment, PostgreSQL, broker, processes."""
