"""A simulated vLLM server: routes, engine, prefix cache, faults and refusals."""
