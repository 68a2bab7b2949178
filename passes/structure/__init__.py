"""Control flow, sequences, optionals and the edges of the graph."""
