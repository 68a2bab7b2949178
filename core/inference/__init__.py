"""Types, shapes, and the elements of small integer tensors, worked out when someone asks."""
