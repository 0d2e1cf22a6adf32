"""What an admin lets the model read of a tool's result: a JMESPath expression, applied before it is read."""
