"""The application: the commands of `passes`, which are also Python functions."""
