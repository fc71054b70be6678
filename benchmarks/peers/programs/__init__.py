"""What is measured, each on its own framework and in the Python that has it."""
