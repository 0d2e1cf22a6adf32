"""`canvasgram tools`: what admins do about tools on the machine, beside a running gateway or without one."""
