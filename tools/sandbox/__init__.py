"""Work in killable processes."""
