"""What the paper measured, and what goes beyond it, run again."""
