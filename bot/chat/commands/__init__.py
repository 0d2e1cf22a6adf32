"""What each command does, and the buttons that it shows; `registry` lists the commands."""
