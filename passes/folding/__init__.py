"""What depends on constants alone becomes a constant, as far as the bytes allow."""
