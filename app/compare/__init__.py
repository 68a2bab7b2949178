"""`passes compare`: a model beside the results of several optimizers."""
