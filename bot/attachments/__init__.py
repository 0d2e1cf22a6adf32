"""What people send beside words, made fit for a prompt: pictures smaller, papers and sound as text."""
