"""What all benches share: a gateway as a process, prose, sample tools, and the load of the machine."""
