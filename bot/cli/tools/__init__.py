"""`canvasgram tools`: tools managed on the machine, beside a running gateway or without one."""
