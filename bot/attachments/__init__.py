"""Files that people attach, as pictures and text for a prompt; and how files for people are sent."""
