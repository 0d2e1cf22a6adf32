"""The simulated vLLM server extended for tests: faults, other releases and servers, scripted replies."""
