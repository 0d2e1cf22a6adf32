"""What all benches share: a gateway as a process, prose, sample tools, percentiles and machine facts."""
