"""`passes quantize`: compression within an accuracy budget."""
