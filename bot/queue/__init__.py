"""Takes inbox items in order of their lanes and runs them."""
