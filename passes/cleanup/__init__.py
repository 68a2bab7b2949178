"""What is not needed or kept twice: dead ops, unused and equal constants, ops that hand on what they are given."""
