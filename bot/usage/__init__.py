"""What turns took, judged from what is stored; reads rows, writes none."""
