"""Small models as real exporters write them."""
