"""What all benches share: bots as processes, simulated people, workload, statistics and machine facts."""
