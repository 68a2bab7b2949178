"""The passes that come with passwright, and the pipelines made of them."""
