"""What is known of each call, and what may happen next."""
