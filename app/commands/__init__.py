"""The commands of `passes`; each takes options, calls a function, and shows its report."""
