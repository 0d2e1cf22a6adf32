"""The commands of `canvasgram`, the first setup, and the settings file that it writes."""
