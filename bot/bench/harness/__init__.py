"""What all benches share: a gateway as a process, workload, sample tools, percentiles and machine facts."""
