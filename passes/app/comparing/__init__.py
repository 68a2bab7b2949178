"""A model beside what optimizers make of it: right or wrong, how large, how fast."""
