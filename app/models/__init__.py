"""Runs over many models: their sources, pools of processes, and output paths."""
