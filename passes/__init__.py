"""The rewrites that come with passwright, by family, and the pipelines made of them."""
