"""The commands of `passes`, one a module. What is slow to import is imported where it is used."""
