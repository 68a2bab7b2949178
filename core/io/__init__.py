"""Reading and writing: files and messages become a Model, and a Model becomes one of them."""
