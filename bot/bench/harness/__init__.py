"""What all benches use."""
