"""What makes a result one to rely on: what must stay is held to, what breaks is found, named and left out."""
