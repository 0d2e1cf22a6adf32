"""What the gateway serves at HTTP_PORT: health, metrics, and the page to which a tool's sign-in returns."""
